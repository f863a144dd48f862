/**
 * How the document stands, and which of the texts it shows.
 *
 * A text is looked for in the rendered text (innerText) of the body and of
 * every shadow root, open or met by a walk, white space collapsed. Rendered
 * text costs a layout, so it is only read where the raw text has the needle at all.
 *
 * @param {string[]} texts
 * @returns {{title: string, readyState: string, length: number, found: boolean[]}}
 */
(texts) => {
  const fold = (s) => s.replace(/\s+/g, ' ').trim();
  const needles = texts.map(fold);
  // Rendered text may differ from raw text in white space and, by
  // text-transform, in case.
  const bare = needles.map((n) => n.replace(/ /g, '').toLowerCase());
  const found = needles.map(() => false);
  const look = (root, rendered) => {
    const raw = (root.textContent || '').replace(/\s+/g, '').toLowerCase();
    if (!bare.some((n, i) => !found[i] && raw.includes(n))) return;
    const text = fold(rendered());
    needles.forEach((n, i) => { if (text.includes(n)) found[i] = true; });
  };
  const body = document.body;
  const known = globalThis.__piChrome;
  if (body && needles.length > 0) {
    look(body, () => body.innerText);
    const roots = [document];
    while (roots.length > 0 && found.includes(false)) {
      const root = /** @type {Document|ShadowRoot} */ (roots.pop());
      for (const el of root.querySelectorAll('*')) {
        const shadow = el.shadowRoot || (known && known.closed.get(el));
        if (!shadow) continue;
        roots.push(shadow);
        look(shadow, () => [...shadow.children].map((c) => /** @type {HTMLElement} */ (c).innerText || '').join(' '));
      }
    }
  }
  return {
    title: document.title,
    readyState: document.readyState,
    length: body ? (body.textContent || '').length : 0,
    found,
  };
}
