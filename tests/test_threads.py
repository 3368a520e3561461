"""One BLAS thread: while any of several threads needs it, and as before once all have left."""

import threading

from threadpoolctl import threadpool_info, threadpool_limits

from bayescore.compiled import available_cores, one_blas_thread


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_the_number_is_put_back_once_all_have_left():
    with threadpool_limits(2, "blas"):
        before = blas_threads()

        def other():
            with one_blas_thread():
                pass

        with one_blas_thread():
            assert blas_threads() == {1}
            worker = threading.Thread(target=other)
            worker.start()
            worker.join()
            assert blas_threads() == {1}  # the first is still inside
        assert blas_threads() == before


def test_there_is_a_core():
    assert available_cores() >= 1
