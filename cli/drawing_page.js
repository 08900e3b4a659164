const sections = [...document.querySelectorAll("section")], form = document.getElementById("filters");
const make = (tag, fields, ...children) => {
  const element = Object.assign(document.createElement(tag), fields);
  element.append(...children);
  return element;
};
const count = make("span", {}), index = make("ol", {});
const text = make("input", { type: "search", placeholder: "a word" });
const choices = { differs: "difference in label", labels: "label", upos: "part of speech" };
const selects = Object.entries(choices).flatMap(([name, title]) => {
  const values = [...new Set(sections.flatMap((one) => (one.dataset[name] || "").split(" ").filter(Boolean)))].sort();
  if (values.length < 2) return [];
  const options = values.map((value) => make("option", { value }, value));
  return [make("select", { name, title }, make("option", { value: "" }, `any ${title}`), ...options)];
});
function filter() {
  let shown = 0;
  sections.forEach((one, i) => {
    const has = (select) => !select.value || (one.dataset[select.name] || "").split(" ").includes(select.value);
    const found = one.querySelector("p").textContent.toLowerCase().includes(text.value.trim().toLowerCase());
    one.hidden = index.children[i].hidden = !(found && selects.every(has));
    shown += !one.hidden;
  });
  count.textContent = `${shown} of ${sections.length} sentences`;
}
sections.forEach((one, i) => {
  one.id = `s${i + 1}`;
  const title = `${one.querySelector("h2").textContent} ${one.querySelector("p").textContent}`;
  index.append(make("li", {}, make("a", { href: `#${one.id}` }, title)));
});
form.append(text, ...selects, count, make("details", {}, make("summary", {}, "index"), index));
form.addEventListener("input", filter);
form.addEventListener("submit", (event) => event.preventDefault());
form.hidden = sections.length < 2;
filter();
