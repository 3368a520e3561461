"""Run the tests as other processors would: ``python -m tests.portable [pytest's arguments]``, or ``make portable``.

Results must not hang on last bits, which differ between the kernels of OpenBLAS, its numbers of threads, and the
instructions that numba may use. The tests run under the newest kernel, Haswell's and the oldest that this processor
has, the last with code that numba compiles for any processor.
"""

import os
import subprocess
import sys

from numpy._core._multiarray_umath import __cpu_features__

KERNELS = {"SkylakeX": "AVX512_SKX", "Haswell": "AVX2", "Sandybridge": "AVX", "Nehalem": "SSE42"}  # newest first
IN_EFFECT = """
import numpy, scipy.linalg
from llvmlite.binding import get_host_cpu_name
from numba import config
from threadpoolctl import threadpool_info
blas = {f"{one['internal_api']} {one['version']} {one.get('architecture')}" for one in threadpool_info()}
print(", ".join(sorted(blas)), "numba for", config.CPU_NAME or get_host_cpu_name(), flush=True)
for n in (60, 500, 2000, 4000):  # OpenBLAS 0.3.34 dies of some products on some processors
    for size in (3, 5, 10, 50):
        product = numpy.ones((n, size)) @ numpy.ones((4000, size)).T @ numpy.ones((4000, size))
"""


def environments():
    """Return what to set, run by run."""
    present = [kernel for kernel, feature in KERNELS.items() if __cpu_features__.get(feature)]
    if not present:
        raise SystemExit(f"none of OpenBLAS's kernels {', '.join(KERNELS)} runs on this processor")
    middle = [kernel for kernel in present[1:-1] if kernel == "Haswell"]
    runs = [{"OPENBLAS_CORETYPE": present[0], "OMP_NUM_THREADS": "1"}]
    runs += [{"OPENBLAS_CORETYPE": kernel, "OMP_NUM_THREADS": "2"} for kernel in middle]
    return [*runs, {"OPENBLAS_CORETYPE": present[-1], "OMP_NUM_THREADS": "2", "NUMBA_CPU_NAME": "generic"}]


def main(arguments):
    """Run pytest in each environment, all of them even where one fails; exit with 1 if any did."""
    failed, tried = [], 0
    for settings in environments():
        title = " ".join(f"{name}={value}" for name, value in settings.items())
        environment = {**os.environ, **settings}
        seen = subprocess.run([sys.executable, "-c", IN_EFFECT], env=environment, capture_output=True, text=True)
        print(f"\n{title}\n{seen.stdout}{seen.stderr}", end="", flush=True)
        if seen.returncode < 0:
            print("products of matrices die in NumPy alone under this kernel: the tests did NOT run", flush=True)
        elif f" {settings['OPENBLAS_CORETYPE']}" not in seen.stdout or seen.returncode:
            failed.append(f"{title}: this kernel is not in effect, so that nothing was tried")
        else:
            tried += 1
            if subprocess.run([sys.executable, "-m", "pytest", *arguments], env=environment).returncode:
                failed.append(title)
    if tried < 2:
        failed.append(f"the tests ran under {tried} kernels, which is no comparison")
    print("\n" + "\n".join(f"failed: {title}" for title in failed) if failed else "\nall passed", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
