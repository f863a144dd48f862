// What is needed of the few elements that a snapshot shows, after js/walk.js.
//
// walk: the number of that walk; shown: rows to describe; ranges: flat list of
// row, end pairs whose generated content is wanted; ref: the highest ref given;
// light: places in shown of those that need no more than identity and box.
//
// Returns [JSON, ...elements of shown, null where gone]. The JSON is
// {token, gone, shown: [[num, x, y, width, height, state, blocker]], styles:
// [[row, before, after, transform]]}. state: 0 nothing to say, 1 covered by
// blocker, 2 clipped away, 3 out of the viewport of an inner box.
(walk, shown, ranges, ref, light) => {
  const S = globalThis.__piChrome;
  if (!S || S.walk !== walk) return [JSON.stringify({token: S ? S.token : '', gone: true, shown: [], styles: []})];
  S.ref = Math.max(S.ref, ref);
  const rows = S.rows;
  const call = Function.prototype.call;
  const box = call.bind(Element.prototype.getBoundingClientRect);
  const get = (proto, name) => call.bind(Object.getOwnPropertyDescriptor(proto, name).get);
  const parentNode = get(Node.prototype, 'parentNode'), assignedSlot = get(Element.prototype, 'assignedSlot');
  const localName = get(Element.prototype, 'localName'), nodeType = get(Node.prototype, 'nodeType'), isConnected = get(Node.prototype, 'isConnected');
  const shadowRoot = get(Element.prototype, 'shadowRoot');
  const clientRects = call.bind(Element.prototype.getClientRects);
  const first = get(Node.prototype, 'firstChild'), next = get(Node.prototype, 'nextSibling'), value = get(Node.prototype, 'nodeValue');
  const OWNED = new Set(['button', 'textbox', 'searchbox', 'combobox', 'spinbutton', 'slider', 'switch', 'status', 'alert', 'log']);
  const OWN = new Set(['button', 'select', 'textarea', 'script', 'style', 'template']);
  const fromPoint = call.bind(Document.prototype.elementFromPoint);
  const attr = call.bind(Element.prototype.getAttribute);

  // The slot of a closed root that an element stands in, which it does not tell.
  const closedSlot = (n) => {
    const host = parentNode(n), root = host && nodeType(host) === 1 && S.closed.get(host);
    if (root) for (const slot of root.querySelectorAll('slot')) if (slot.assignedNodes().includes(n)) return slot;
    return null;
  };
  const parent = (n) => {
    const p = (nodeType(n) === 1 && assignedSlot(n)) || closedSlot(n) || parentNode(n);
    // Not by its class: an element may have come from another document.
    return p && nodeType(p) === 11 ? p.host : p;
  };
  const contains = (a, b) => {
    for (let n = b, i = 0; n && i < 2000; n = parent(n), i++) if (n === a) return true;
    return false;
  };
  const describe = (el) => {
    let s = localName(el);
    const id = attr(el, 'id');
    if (id) return s + '#' + id.slice(0, 60);
    const classes = (attr(el, 'class') || '').trim().split(/\s+/).filter(Boolean).slice(0, 2);
    for (const c of classes) s += '.' + c.slice(0, 40);
    return s;
  };
  const at = (x, y) => {
    let el = fromPoint(document, x, y);
    for (let i = 0; el && i < 50; i++) {
      const sr = S.closed.get(el) || shadowRoot(el);
      const inner = sr && sr.elementFromPoint(x, y);
      if (!inner || inner === el) break;
      el = inner;
    }
    return el;
  };

  const out = [], elements = [];
  const mid = [0, 0]; // of what is left of the box
  const clip = (el, r) => {
    // Cut away by the boxes around it: for good where a box does not scroll,
    // for now where it does.
    let x0 = Math.max(0, r.x), y0 = Math.max(0, r.y), x1 = Math.min(innerWidth, r.right), y1 = Math.min(innerHeight, r.bottom);
    if (x0 >= x1 || y0 >= y1) { x0 = r.x; y0 = r.y; x1 = r.right; y1 = r.bottom; }
    let positioned = '';
    for (let n = el, i = 0; n && nodeType(n) === 1 && i < 200; i++) {
      const cs = getComputedStyle(n);
      if (n !== el && n !== document.documentElement && n !== document.body) {
        const skip = positioned === 'fixed' || (positioned === 'absolute' && cs.position === 'static');
        if (!skip && (cs.overflowX !== 'visible' || cs.overflowY !== 'visible')) {
          const b = box(n);
          if (x1 <= b.left || x0 >= b.right || y1 <= b.top || y0 >= b.bottom) {
            const scrolls = cs.overflowX !== 'clip' && cs.overflowY !== 'clip' && (n.scrollHeight > n.clientHeight || n.scrollWidth > n.clientWidth);
            const user = /auto|scroll/.test(cs.overflowX + cs.overflowY);
            return scrolls && user ? 3 : 2;
          }
          x0 = Math.max(x0, b.left); x1 = Math.min(x1, b.right); y0 = Math.max(y0, b.top); y1 = Math.min(y1, b.bottom);
        }
      }
      if (cs.position === 'fixed') { positioned = 'fixed'; }
      else if (cs.position === 'absolute') positioned = 'absolute';
      else if (cs.position !== 'static') positioned = '';
      n = parent(n);
    }
    mid[0] = (x0 + x1) / 2; mid[1] = (y0 + y1) / 2;
    return 0;
  };
  const less = new Set(light);
  S.told ||= new Map();
  if (S.told.size > 8192) S.told.clear();
  S.evidence ||= evidence;
  for (let k = 0; k < shown.length; k++) {
    const el = rows[shown[k]];
    if (!el || nodeType(el) !== 1 || !isConnected(el)) { out.push(null); elements.push(null); continue; }
    let n = el[S.num];
    if (n === undefined) { n = S.next++; el[S.num] = n; }
    if (!S.byNum.has(n)) S.byNum.set(n, new WeakRef(el));
    let r = box(el);
    let state = 0, blocker = '';
    if (!less.has(k)) S.told.set(n, S.evidence(el));
    if (!less.has(k) && localName(el) !== 'area' && r.width > 0 && r.height > 0) {
      // An inline element of several lines has its middle between them.
      const rects = clientRects(el);
      const hit = rects.length > 1 ? rects[0] : r;
      state = clip(el, hit);
      const [cx, cy] = mid;
      if (!state && cx >= 0 && cy >= 0 && cx < innerWidth && cy < innerHeight) {
        const top = at(cx, cy);
        if (top && top !== el && !contains(el, top) && !contains(top, el) && !labels(el, top)) { state = 1; blocker = describe(top); }
      }
    }
    out.push([n, r.x, r.y, r.width, r.height, state, blocker]);
    elements.push(el);
  }
  // What tells an action in a list or a table from the same action of another
  // item: how it is called, and what its item says beside its buttons. item:
  // it stands in such an item. href: where it leads. near: with near, what the
  // items beside it say.
  function evidence(el, near) {
    const line = (s) => String(s || '').slice(0, 1000).replace(/\s+/g, ' ').trim().slice(0, 200).toWellFormed();
    const textOf = get(Node.prototype, 'textContent');
    const own = line(attr(el, 'aria-label') || textOf(el) || attr(el, 'title') || attr(el, 'alt') || attr(el, 'placeholder'));
    const roles = ['row', 'listitem', 'option', 'treeitem', 'article'], tags = ['li', 'tr', 'option', 'article'];
    let item = null;
    for (let n = el, i = 0; n && i < 12; n = parent(n), i++) {
      if (nodeType(n) !== 1 || localName(n) === 'body') break;
      const role = attr(n, 'role');
      if (role ? roles.includes(role) : tags.includes(localName(n))) { item = n; break; }
    }
    if (!item) return {own, rest: '', item: false, href: '', near: ''};
    // What somebody types into an editor does not make it another item.
    const edited = (n) => { const a = attr(n, 'contenteditable'); return a !== null && a !== 'false'; };
    let rest = '', seen = 0;
    const read = (node) => {
      for (let c = first(node); c && seen < 200 && rest.length < 400; c = next(c)) {
        seen++;
        if (nodeType(c) === 3) rest += ' ' + value(c).slice(0, 400);
        else if (nodeType(c) === 1 && c !== el && !OWNED.has(attr(c, 'role')) && !OWN.has(localName(c)) && !edited(c)) read(c);
      }
    };
    read(item);
    let beside = '';
    if (near) {
      for (const step of ['previousElementSibling', 'nextElementSibling']) {
        const to = get(Element.prototype, step);
        for (let n = to(item), i = 0; n && i < 3; n = to(n), i++) if (localName(n) === localName(item)) beside += ' ' + line(textOf(n));
      }
    }
    return {own, rest: line(rest), item: true, href: attr(el, 'href') || '', near: beside};
  }
  function labels(el, top) {
    for (let n = top, i = 0; n && i < 20; n = parent(n), i++) if (nodeType(n) === 1 && localName(n) === 'label' && n.control === el) return true;
    return false;
  }

  // Generated content, as a person reads it: the parts that are text; an
  // alternative text replaces them.
  const said = (content) => {
    if (content === 'none' || content === 'normal' || content === '') return '';
    const parts = content.match(/"(?:[^"\\]|\\.)*"|\/|[^\s"]+/g) || [];
    const slash = parts.indexOf('/');
    const use = slash >= 0 ? parts.slice(slash + 1) : parts;
    let s = '';
    for (const p of use) {
      if (p === 'open-quote') s += '\u201c';
      else if (p === 'close-quote') s += '\u201d';
      else if (p[0] === '"') s += p.slice(1, -1).replace(/\\([0-9a-f]{1,6})\s?|\\(.)/gi, (_, hex, c) => hex ? String.fromCodePoint(parseInt(hex, 16)) : c);
    }
    // An alternative text stands by itself.
    return slash >= 0 && s ? ' ' + s.slice(0, 300) + ' ' : s.slice(0, 300);
  };
  const styles = [];
  // They have no generated content.
  const PLAIN = new Set(['input', 'textarea', 'select', 'option', 'img', 'br', 'wbr', 'svg', 'path', 'circle', 'rect', 'g', 'line', 'polyline', 'polygon', 'use', 'iframe', 'canvas', 'video', 'audio']);
  let budget = 4000;
  for (let k = 0; k + 1 < ranges.length; k += 2) {
    const end = Math.min(ranges[k + 1], ranges[k] + 160, rows.length);
    for (let i = ranges[k]; i < end && budget > 0; i++) {
      const el = rows[i];
      if (!el || nodeType(el) !== 1 || PLAIN.has(localName(el))) continue;
      budget--;
      const t = getComputedStyle(el).textTransform;
      const b = getComputedStyle(el, '::before'), a = getComputedStyle(el, '::after');
      const before = b.display === 'none' ? '' : said(b.content), after = a.display === 'none' ? '' : said(a.content);
      const block = (s) => /^inline|^contents/.test(s.display) ? '' : ' ';
      if (before || after || t !== 'none') {
        styles.push([i, before ? block(b) + before + block(b) : '', after ? block(a) + after + block(a) : '', t[0] === 'n' ? '' : t[0]]);
      }
    }
  }
  return [JSON.stringify({token: S.token, gone: false, shown: out, styles}).toWellFormed(), ...elements];
}
