// A field above each table of the class `filtered`: rows that have all of its words are shown. Dots and colons are the
// same, as in aten.add and aten::add. A search of the site leads to an operator (#aten::add), or passes its words (?h=).
document$.subscribe(() => {
  const plain = (text) => text.toLowerCase().replace(/[.:]+/g, ".");
  for (const box of document.querySelectorAll(".filtered")) {
    if (box.querySelector("input")) continue;
    const field = document.createElement("input");
    const count = document.createElement("span");
    field.type = "search";
    field.placeholder = box.dataset.hint;
    field.setAttribute("aria-label", box.dataset.hint);
    box.prepend(field, count);
    const rows = [...box.querySelectorAll("tbody tr")].map((row) => [row, plain(row.textContent)]);
    const show = () => {
      const words = plain(field.value).split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const [row, text] of rows) {
        row.hidden = !words.every((word) => text.includes(word));
        shown += !row.hidden;
      }
      count.textContent = `${shown} / ${rows.length}`;
    };
    field.addEventListener("input", show);
    const asked = decodeURIComponent(location.hash.slice(1)) || new URLSearchParams(location.search).get("h");
    if (asked && rows.some(([, text]) => text.includes(plain(asked)))) field.value = asked;
    show();
  }
});
