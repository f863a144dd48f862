// All of what a walk cut: rows are of that walk, of a field or of a text, have
// how many characters of a text there are. Returns {gone, fields: [[row, value,
// options, more]], texts: [[row, text]]}; options are [chosen, label], more is
// how many of them were left out. A text that was not cut is not returned.
(walk, fields, texts, have, chars, most) => {
  const S = globalThis.__piChrome;
  if (!S || S.walk !== walk) return {gone: true, fields: [], texts: []};
  const clean = (s) => String(s).replace(/[\b\f]/g, ' ').toWellFormed();
  const label = (o) => {
    const group = o.parentNode.localName === 'optgroup' ? o.parentNode.label : '';
    const name = clean(o.label || o.text).replace(/\s+/g, ' ').trim().slice(0, 300);
    return name + (group ? ` (${clean(group).slice(0, 60)})` : '') + (o.disabled || o.parentNode.disabled ? ' (disabled)' : '');
  };
  const field = (row) => {
    const el = S.rows[row];
    if (el.localName !== 'select') {
      // Asked as a password, whatever the caller thinks.
      const v = el.type === 'password' ? '' : String(el.value);
      return [row, clean(v.slice(0, chars)), [], v.length - Math.min(v.length, chars)];
    }
    const all = [...el.options];
    return [row, '', all.slice(0, most).map((o) => [o.selected, label(o)]), Math.max(0, all.length - most)];
  };
  let left = chars;
  const text = (row, i) => {
    // An element's only text has no node in the walk; it stands after its element.
    const node = S.rows[row];
    const around = node ? node.parentElement : S.rows[row - 1];
    let s = node ? node.nodeValue : around.textContent;
    const lines = around && (around.closest('pre,listing,plaintext') || /preserve|break-spaces/.test(getComputedStyle(around).whiteSpaceCollapse));
    if (!lines) s = s.replace(/[ \t\n\r\f]+/g, ' ');
    if (s.length <= have[i]) return null;
    const max = have[i] + left;
    left -= Math.min(s.length, max) - have[i];
    return [row, clean(s.slice(0, max)), s.length - Math.min(s.length, max)];
  };
  return {gone: false, fields: fields.map(field), texts: texts.map(text).filter(Boolean)};
}
