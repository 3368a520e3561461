// the site's search: the glossary, which says what a word means, comes first, then pages that explain it, then others
// that use it, and last the papers, and pages of classes and functions that have it in their name
const FACTORS = [
  [/^glossary$/, 2],
  [/^(start|how-to|explanation)\/|^faq$/, 1.6],
  [/^paper\//, 1 / 2],
  [/^reference\/generated\//, 1 / 4],
];
var Scorer = {
  score: ([docname, title, anchor, description, score]) =>
    score * (FACTORS.find(([pages]) => pages.test(docname)) ?? [null, 1])[1],
  // the rest as Sphinx has it
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
