// A field above each table of the class `filtered`: rows that have all of its words are shown. Dots and colons are the
// same, as in aten.add and aten::add, and the names of Python's modules and of the default overload are left out, as in
// torch.ops.aten.gelu.default. A search of the site leads to an operator (#aten::add), or passes its words (?h=). A table
// with `data-opsets` has a list of opsets too: each row then shows the last of its forms (`data-from`) that holds there.
document$.subscribe(() => {
  const plain = (text) => text.toLowerCase().replace(/[.:]+/g, ".");
  const asked = (text) => plain(text).replace(/^(torch\.(ops|nn\.functional|tensor)|torch|f)\.|\.default$/g, "");
  for (const box of document.querySelectorAll(".filtered")) {
    if (box.querySelector("input")) continue;
    const field = document.createElement("input");
    const opset = document.createElement("select");
    const count = document.createElement("span");
    field.type = "search";
    field.placeholder = box.dataset.hint;
    field.setAttribute("aria-label", box.dataset.hint);
    box.prepend(field, count);
    if (box.dataset.opsets) {
      const [first, last] = box.dataset.opsets.split(" ").map(Number);
      opset.setAttribute("aria-label", "opset");
      opset.add(new Option(box.dataset.every, ""));
      for (let i = last; i >= first; i--) opset.add(new Option(`opset ${i}`, i));
      field.after(opset);
    }
    const rows = [...box.querySelectorAll("tbody tr")].map((row) => ({
      row,
      text: plain(row.textContent),
      since: box.dataset.opsets ? Number(row.cells[1].textContent) : 0,
      forms: [...row.querySelectorAll("[data-from]")],
    }));
    const show = () => {
      const words = field.value.split(/\s+/).map(asked).filter(Boolean);
      const at = Number(opset.value);
      let shown = 0;
      for (const { row, text, since, forms } of rows) {
        row.hidden = !words.every((word) => text.includes(word)) || (at && since > at);
        shown += !row.hidden;
        const holding = forms.filter((form) => form.dataset.from <= at).at(-1);
        for (const form of forms) form.hidden = at && form !== holding;
      }
      count.textContent = `${shown} / ${rows.length}`;
    };
    field.addEventListener("input", show);
    opset.addEventListener("input", show);
    const words = decodeURIComponent(location.hash.slice(1)) || new URLSearchParams(location.search).get("h");
    if (words && rows.some(({ text }) => text.includes(asked(words)))) field.value = words;
    show();
  }
});
