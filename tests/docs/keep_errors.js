// in the head of every page: keep the errors that its console would show
window.kept = [];
addEventListener("error", (event) => {
  const of = event.target;
  window.kept.push(event.message || `cannot load ${of.src || of.href || of.tagName}`);
}, true);
addEventListener("unhandledrejection", (event) => window.kept.push(String(event.reason)));
const shown = console.error;
console.error = (...said) => { window.kept.push(said.join(" ")); shown(...said); };
