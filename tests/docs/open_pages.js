// open the pages of `plan` in a frame of each width, search for its words, and send back what is wrong
const found = [];
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const frame = document.body.appendChild(document.createElement("iframe"));
frame.style.cssText = "border: 0; height: 900px";

async function open(address) {
  const loaded = new Promise((resolve) => frame.addEventListener("load", resolve, { once: true }));
  frame.src = address;
  await loaded;
  await frame.contentWindow.MathJax?.startup?.promise;
}

// whether an element's own box, or one that it is in, scrolls sideways
const scrolls = (element) => element && (
  ["auto", "scroll"].includes(frame.contentWindow.getComputedStyle(element).overflowX) || scrolls(element.parentElement)
);

function overflow(page, width) {
  const root = frame.contentDocument.documentElement;
  const say = (text) => found.push(`${page} at ${width} px: ${text}`);
  if (root.scrollWidth > width) say(`is ${root.scrollWidth} px wide`);
  for (const element of frame.contentDocument.querySelectorAll("table, pre, img, svg, iframe, h1, h2, dt, mjx-container")) {
    const name = `${element.tagName.toLowerCase()} "${element.textContent.trim().slice(0, 40)}"`;
    const box = element.getBoundingClientRect();
    if (box.width && box.right > width + 1 && !scrolls(element)) say(`${name} is cut off`);
    const code = element.matches(".highlight > pre") && !element.closest(".cell_output, .printed");  // outputs may scroll
    if (code && element.scrollWidth > element.clientWidth + 1) say(`${name} is cut off: code`);
  }
}

async function see(page) {
  await open(page);
  for (const width of plan.widths) {
    frame.style.width = `${width}px`;
    await new Promise((resolve) => frame.contentWindow.requestAnimationFrame(resolve));
    overflow(page, width);
  }
  for (const image of frame.contentDocument.images) {
    const alt = image.getAttribute("alt");  // Sphinx takes the file's name where none is given
    if (alt === null || /\.(png|svg|jpe?g|gif)$/.test(alt)) found.push(`${page}: no alt text of ${image.src}`);
  }
  for (const said of new Set(frame.contentWindow.kept)) found.push(`${page}: ${said}`);
}

async function search(words, expected) {
  await open(`search.html?q=${encodeURIComponent(words)}`);
  const results = () => [...frame.contentDocument.querySelectorAll("#search-results li > a")];
  for (let before = -1, tries = 0; results().length > before && tries < 50; tries++) {
    before = results().length;
    await pause(200);
  }
  const first = [...new Set(results().map((link) => new URL(link.href).pathname.slice(1)))].slice(0, 5);
  if (!first.includes(expected)) found.push(`search for ${words}: ${expected} is not among ${first.join(", ")}`);
}

(async () => {
  try {
    for (const page of plan.pages) await see(page);
    for (const [words, expected] of Object.entries(plan.searches)) await search(words, expected);
  } catch (error) {
    found.push(`not all pages were opened: ${error}`);
  }
  await fetch("/__found", { method: "POST", body: JSON.stringify(found) });
})();
