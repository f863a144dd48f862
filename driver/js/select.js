// The elements that a selector finds in this document. steps are CSS selectors
// of which each is looked for in the shadow roots within what the one before
// found: open ones, and closed ones that a walk has met.
//
// Returns [JSON, ...elements], at most max of them, visible ones first. The
// JSON is {error} or {token, total, visible, enabled, items: [{num, tag, role,
// label, id, visible, x, y, width, height}]}; enabled counts the visible ones
// that are neither disabled nor inert.
(steps, max) => {
  const S = globalThis.__piChrome;
  const closed = (el) => S && S.closed.get(el);
  const call = Function.prototype.call;
  const get = (proto, name) => call.bind(Object.getOwnPropertyDescriptor(proto, name).get);
  const shadowRoot = get(Element.prototype, 'shadowRoot'), localName = get(Element.prototype, 'localName');
  const attr = call.bind(Element.prototype.getAttribute), box = call.bind(Element.prototype.getBoundingClientRect);
  const check = call.bind(Element.prototype.checkVisibility);
  const all = (root, css) => root instanceof Document ? Document.prototype.querySelectorAll.call(root, css)
    : root instanceof Element ? Element.prototype.querySelectorAll.call(root, css) : root.querySelectorAll(css);

  const rootsIn = (node, into) => {
    const own = node.nodeType === 1 && (closed(node) || shadowRoot(node));
    if (own && !into.has(own)) { into.add(own); rootsIn(own, into); }
    for (const el of all(node, '*')) {
      const root = closed(el) || shadowRoot(el);
      if (root && !into.has(root)) { into.add(root); rootsIn(root, into); }
    }
  };
  let found = [document];
  try {
    for (let i = 0; i < steps.length; i++) {
      const next = new Set();
      for (const node of found) {
        if (i === 0) { for (const el of all(node, steps[i])) next.add(el); continue; }
        const roots = new Set();
        rootsIn(node, roots);
        for (const root of roots) for (const el of all(root, steps[i])) next.add(el);
      }
      found = [...next];
    }
  } catch (e) {
    return [JSON.stringify({error: String(e && e.message).slice(0, 300).toWellFormed()})];
  }
  const visible = (el) => {
    if (!check(el, {visibilityProperty: true})) return localName(el) === 'area';
    const r = box(el);
    return r.width > 0 && r.height > 0 || getComputedStyle(el).display === 'contents';
  };
  const shown = [], hidden = [];
  for (const el of found) (visible(el) ? shown : hidden).push(el);
  const list = shown.concat(hidden).slice(0, max);
  const items = list.map((el, i) => {
    const r = box(el);
    const label = attr(el, 'aria-label') || (el instanceof HTMLElement ? (el instanceof HTMLInputElement ? attr(el, 'placeholder') || attr(el, 'name') : el.innerText) : el.textContent) || '';
    return {num: S && el[S.num] || 0, tag: localName(el), role: attr(el, 'role') || '', label: String(label).replace(/\s+/g, ' ').trim().slice(0, 80),
      id: attr(el, 'id') || '', visible: i < shown.length, x: r.x, y: r.y, width: r.width, height: r.height};
  });
  const matches = call.bind(Element.prototype.matches), closest = call.bind(Element.prototype.closest);
  const enabled = shown.filter((el) => !matches(el, ':disabled') && !closest(el, '[inert],[aria-disabled="true"]')).length;
  return [JSON.stringify({token: S ? S.token : '', total: found.length, visible: shown.length, enabled, items}).toWellFormed(), ...list];
}
