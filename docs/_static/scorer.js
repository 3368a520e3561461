// the site's search: the glossary, which says what a word means, comes before pages that use it, and these before pages
// of classes and functions that have it in their name
var Scorer = {
  score: ([docname, title, anchor, description, score]) =>
    docname === "glossary" ? 2 * score : docname.startsWith("reference/generated/") ? score / 4 : score,
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
