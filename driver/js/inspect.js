// What one element is, beyond what a walk says of it.
//
// walk: the number of the walk whose row is wanted. Returns {gone} when
// another walk has come since, else {row, rendered, parents, tag, attributes,
// attributesLeft, styles, box, selector, unique}: row is -1 for an element that the
// walk did not meet; parents are the rows around it then, the nearest first.
// The values of secrets do not leave the page.
(walk, el) => {
  const S = globalThis.__piChrome;
  if (!S || S.walk !== walk) return {gone: true};
  const call = Function.prototype.call;
  const get = (proto, name) => call.bind(Object.getOwnPropertyDescriptor(proto, name).get);
  const N = Node.prototype, E = Element.prototype;
  const parentNode = get(N, 'parentNode'), assignedSlot = get(E, 'assignedSlot'), localName = get(E, 'localName');
  const isConnected = get(N, 'isConnected'), ownerDocument = get(N, 'ownerDocument');
  const attr = call.bind(E.getAttribute), names = call.bind(E.getAttributeNames), box = call.bind(E.getBoundingClientRect);
  const matches = call.bind(E.matches), check = call.bind(E.checkVisibility), rootNode = call.bind(N.getRootNode);
  if (el.nodeType !== 1 || !isConnected(el) || ownerDocument(el) !== document) return {gone: true};
  const clean = (s, max) => String(s).slice(0, max).toWellFormed();
  const parent = (n) => {
    const p = (n.nodeType === 1 && assignedSlot(n)) || parentNode(n);
    return p && p.nodeType === 11 ? p.host : p;
  };

  const rowOf = new Map();
  const wanted = new Set();
  for (let n = el, i = 0; n && n.nodeType === 1 && i < 200; n = parent(n), i++) wanted.add(n);
  for (let i = 0; i < S.rows.length && rowOf.size < wanted.size; i++) if (wanted.has(S.rows[i])) rowOf.set(S.rows[i], i);
  const parents = [];
  for (let n = parent(el), i = 0; n && n.nodeType === 1 && i < 200; n = parent(n), i++) if (rowOf.has(n)) parents.push(rowOf.get(n));

  const SECRET = /password|passwd|pwd|secret|token|bearer|api[-_ ]?key|access[-_ ]?key|auth[-_ ]?code|one[-_ ]?time|otp|2fa|mfa|verification[-_ ]?code|recovery[-_ ]?code|credit[-_ ]?card|card[-_ ]?number|cc-number|cc-csc|cvc|cvv|security[-_ ]?code|ssn|social[-_ ]?security|csrf|nonce/i;
  const hints = ['name', 'id', 'autocomplete', 'placeholder', 'data-testid', 'aria-label', 'type'].map((k) => attr(el, k) || '').join(' ');
  const secret = SECRET.test(hints);
  const all = names(el), attributes = [];
  for (const k of all) {
    if (attributes.length === 40) break;
    const hide = k === 'nonce' || (k === 'value' || k === 'content') && secret || SECRET.test(k) && !/^(id|name|class|for|aria-.*)$/.test(k);
    attributes.push([clean(k, 80), hide ? '(redacted)' : clean(attr(el, k), 200)]);
  }

  const cs = getComputedStyle(el);
  const styles = {};
  for (const k of ['display', 'visibility', 'opacity', 'position', 'z-index', 'overflow-x', 'overflow-y', 'pointer-events', 'cursor', 'color', 'background-color',
    'font-size', 'font-weight', 'text-transform', 'white-space', 'user-select', 'transform', 'direction']) {
    const v = cs.getPropertyValue(k);
    // What says nothing is left out.
    if (v && !/^(none|auto|static|1|visible|normal|ltr|matrix\(1, 0, 0, 1, 0, 0\))$/.test(v) || k === 'display' || k === 'visibility') styles[k] = clean(v, 120);
  }

  // A selector that finds this element and no other, where one is short enough.
  const within = (root, css) => root.nodeType === 9 ? Document.prototype.querySelectorAll.call(root, css) : DocumentFragment.prototype.querySelectorAll.call(root, css);
  const only = (root, css, n) => { try { const f = within(root, css); return f.length === 1 && f[0] === n; } catch { return false; } };
  const short = (root, n) => {
    const tag = localName(n), id = attr(n, 'id');
    const tries = [];
    if (id) tries.push('#' + CSS.escape(id));
    for (const k of ['data-testid', 'name', 'aria-label', 'href', 'placeholder']) {
      const v = attr(n, k);
      if (v && v.length <= 120) tries.push(CSS.escape(tag) + '[' + k + '=' + JSON.stringify(v) + ']');
    }
    tries.push(CSS.escape(tag));
    for (const t of tries) if (only(root, t, n)) return t;
    return '';
  };
  const path = (root, n) => {
    let tail = '';
    for (let at = n, i = 0; at && at.nodeType === 1 && i < 12; at = parentNode(at), i++) {
      const own = short(root, at);
      if (own) { const css = own + tail; if (only(root, css, n)) return css; }
      let nth = 1;
      for (let s = at.previousElementSibling; s; s = s.previousElementSibling) if (localName(s) === localName(at)) nth++;
      tail = (i ? ' > ' : ' > ') + CSS.escape(localName(at)) + ':nth-of-type(' + nth + ')' + tail;
      const css = tail.slice(3);
      if (only(root, css, n)) return css;
    }
    return '';
  };
  const parts = [];
  for (let n = el, i = 0; n && i < 20; i++) {
    const root = rootNode(n);
    const css = path(root, n);
    if (!css) { parts.length = 0; break; }
    parts.unshift(css);
    if (root.nodeType !== 11 || !root.host) break;
    n = root.host;
  }

  const r = box(el);
  return {
    gone: false, row: rowOf.has(el) ? rowOf.get(el) : -1, rendered: check(el, {visibilityProperty: true}), parents, tag: clean(localName(el), 80),
    id: clean(attr(el, 'id') || '', 120), type: clean(attr(el, 'type') || '', 40), attributes, attributesLeft: all.length - attributes.length, styles,
    box: {x: r.x, y: r.y, width: r.width, height: r.height}, selector: clean(parts.join(' >>> '), 400), disabled: matches(el, ':disabled'),
  };
}
