// Puts the functions that scrolling needs into this world: what scrolls, where
// the wheel reaches it, and how far it has gone.
function () {
  const lib = globalThis.__piChromeInput;
  const {up, contains, frame, shown, rects, describe, line} = lib.tools;
  const MAX_LOOK = 5000;
  const shadowOf = (el) => el.shadowRoot || (globalThis.__piChrome ? globalThis.__piChrome.closed.get(el) : null);
  const root = () => document.scrollingElement || document.documentElement;

  const size = (n) => ({x: n.scrollWidth - n.clientWidth, y: n.scrollHeight - n.clientHeight});

  /** Whether a wheel can scroll n along an axis. */
  const scrolls = (n, axis) => {
    if (n.nodeType !== 1 || size(n)[axis] < 1) return false;
    const style = getComputedStyle(n);
    const o = axis === 'x' ? style.overflowX : style.overflowY;
    if (n === root()) return o !== 'hidden' && o !== 'clip';
    return o === 'auto' || o === 'scroll' || o === 'overlay';
  };

  const area = (n) => {
    const r = n === root() ? new DOMRect(0, 0, innerWidth, innerHeight) : n.getBoundingClientRect();
    const w = Math.min(r.right, innerWidth) - Math.max(r.left, 0), h = Math.min(r.bottom, innerHeight) - Math.max(r.top, 0);
    return w > 0 && h > 0 ? w * h : 0;
  };

  /** The largest thing within that scrolls and can be seen. */
  const largest = (within, axes) => {
    let best = null, most = 0, count = 0;
    const walk = (n) => {
      for (const el of n.querySelectorAll('*')) {
        if (++count > MAX_LOOK) return;
        if (axes.some((a) => size(el)[a] >= 1) && axes.some((a) => scrolls(el, a)) && shown(el) && area(el) > most) { most = area(el); best = el; }
        const inner = shadowOf(el);
        if (inner) walk(inner);
      }
    };
    if (within.nodeType === 1 && shadowOf(within)) walk(shadowOf(within));
    walk(within);
    return best;
  };

  const deepAt = (x, y) => {
    let hit = document.elementFromPoint(x, y);
    for (let i = 0; hit && i < 50; i++) {
      const inner = shadowOf(hit) && shadowOf(hit).elementFromPoint(x, y);
      if (!inner || inner === hit) break;
      hit = inner;
    }
    return hit;
  };

  /** What a wheel over el scrolls, itself first. */
  const around = (el, axes) => {
    for (let n = el; n; n = up(n)) if (n.nodeType === 1 && axes.some((a) => scrolls(n, a))) return n;
    return null;
  };

  /** What is scrolled: el itself, the largest in it, or what it stands in;
   * without el the page, or the part of it that scrolls in its stead. */
  const choose = (el, axes) => {
    const page = root();
    if (el) {
      if (axes.some((a) => scrolls(el, a))) return el;
      return largest(el, axes) || around(el, axes) || page;
    }
    if (axes.some((a) => scrolls(page, a))) return page;
    return around(deepAt(innerWidth / 2, innerHeight / 2), axes) || largest(document, axes) || page;
  };

  /** A point where the wheel reaches node first. */
  const wheelPoint = (node, axes) => {
    const page = node === root();
    const r = page ? new DOMRect(0, 0, innerWidth, innerHeight) : node.getBoundingClientRect();
    const left = Math.max(r.left, 0), top = Math.max(r.top, 0), right = Math.min(r.right, innerWidth), bottom = Math.min(r.bottom, innerHeight);
    if (right - left < 1 || bottom - top < 1) return {outside: true};
    let second = null, blocker = null;
    for (const v of [0.5, 0.3, 0.7, 0.1, 0.9, 0.02, 0.98]) {
      for (const u of [0.5, 0.3, 0.7, 0.1, 0.9, 0.02, 0.98]) {
        const x = left + u * (right - left), y = top + v * (bottom - top);
        const hit = deepAt(x, y);
        if (!hit || !(page || contains(node, hit))) { blocker ||= hit; continue; }
        second ||= {x, y};
        if (hit.localName === 'iframe' || hit.localName === 'frame') continue;
        let inner = false;
        for (let n = hit; n && n !== node; n = up(n)) {
          if (n.nodeType === 1 && (axes.some((a) => scrolls(n, a)) || page && ['fixed'].includes(getComputedStyle(n).position))) { inner = true; break; }
        }
        if (!inner) return {x, y};
      }
    }
    return second || {blocked: describe(blocker)};
  };

  const place = (n) => ({x: n.scrollLeft, y: n.scrollTop});
  const name = (n) => (n === root() ? 'page' : n.ariaLabel ? `${n.getAttribute('role') || n.localName} ${JSON.stringify(line(n.ariaLabel, 60))}` : describe(n));

  const watchWheel = (s) => {
    const onWheel = (e) => { s.wheels++; if (e.defaultPrevented) s.prevented++; };
    addEventListener('wheel', onWheel, {passive: true});
    s.stop = () => removeEventListener('wheel', onWheel);
  };

  const begin = (node, el) => {
    lib.scrollStop();
    const chain = new Map();
    for (let n = el || node; n; n = up(n)) if (n.nodeType === 1 && (size(n).x >= 1 || size(n).y >= 1)) chain.set(n, place(n));
    if (!chain.has(node)) chain.set(node, place(node));
    if (!chain.has(root())) chain.set(root(), place(root()));
    const s = lib.scrolling = {node, chain, wheels: 0, prevented: 0, size: size(node)};
    watchWheel(s);
    s.timer = setTimeout(() => { if (lib.scrolling === s) lib.scrollStop(); }, 60000);
  };

  lib.scrollStop = () => {
    const s = lib.scrolling;
    if (!s) return {};
    clearTimeout(s.timer);
    s.stop();
    lib.scrolling = null;
    return {};
  };

  /**
   * Chooses what is scrolled and the point of the wheel.
   * @param {any} el the element that was asked for, or the global object for the page
   * @param {string[]} axes
   */
  lib.scroller = async (el, axes) => {
    if (el === globalThis) el = null;
    if (el && !el.isConnected) return {state: 'stale'};
    if (el && (!shown(el) || !rects(el).length)) return {state: 'invisible', reason: 'it is not rendered'};
    const node = choose(el, axes);
    let at = wheelPoint(node, axes);
    if (at.outside) {
      node.scrollIntoView({block: 'nearest', inline: 'nearest', behavior: 'instant'});
      await frame();
      at = wheelPoint(node, axes);
    }
    if (at.outside) return {state: 'invisible', reason: 'it stays outside the viewport'};
    if ('blocked' in at) return {state: 'covered', blocker: at.blocked, within: '', x: 0, y: 0};
    begin(node, null);
    return {state: 'ok', x: at.x, y: at.y, ...where()};
  };

  const where = () => {
    const s = lib.scrolling;
    const now = place(s.node), max = size(s.node);
    const rtl = getComputedStyle(s.node).direction === 'rtl';
    const x = rtl ? now.x + max.x : now.x; // from the left, in either direction
    const ends = [];
    if (max.y < 1 || now.y <= 1) ends.push('top');
    if (now.y >= max.y - 1) ends.push('bottom');
    if (max.x >= 1 && x <= 1) ends.push('left');
    if (max.x >= 1 && x >= max.x - 1) ends.push('right');
    return {what: name(s.node), position: {x, y: now.y}, max: {x: Math.max(0, max.x), y: Math.max(0, max.y)},
      view: {x: s.node.clientWidth, y: s.node === root() ? innerHeight : s.node.clientHeight}, ends, grew: max.y > s.size.y + 1 || max.x > s.size.x + 1};
  };

  /** Remembers where what el stands in is scrolled to. */
  lib.scrollFrom = (el) => {
    if (!el.isConnected) return {state: 'stale'};
    begin(around(up(el), ['y', 'x']) || root(), el);
    return {state: 'ok', ...where()};
  };

  /**
   * Waits until nothing has moved for some frames, at most limit ms, and tells
   * what has moved since the start.
   */
  lib.scrolled = async (_, limit, still) => {
    const s = lib.scrolling;
    if (!s) return {missed: true};
    const start = performance.now();
    const sign = () => [...s.chain.keys()].map((n) => `${n.scrollLeft},${n.scrollTop},${n.scrollHeight},${n.scrollWidth}`).join(' ');
    let last = sign();
    for (let same = 0; same < still && performance.now() - start < limit;) {
      await frame();
      const now = sign();
      same = now === last ? same + 1 : 0;
      last = now;
    }
    if (lib.scrolling !== s) return {missed: true};
    const moved = [];
    for (const [n, before] of s.chain) {
      const now = place(n);
      if (now.x !== before.x || now.y !== before.y) moved.push({what: name(n), x: Math.round(now.x - before.x), y: Math.round(now.y - before.y), node: n === s.node});
    }
    return {moved: moved.slice(0, 5), wheels: s.wheels, prevented: s.prevented, ...where()};
  };

  /** Waits until what is scrolled becomes larger, at most limit ms. */
  lib.growth = async (_, limit) => {
    const s = lib.scrolling;
    if (!s) return {missed: true};
    const before = size(s.node), start = performance.now();
    while (performance.now() - start < limit) {
      await frame();
      const now = size(s.node);
      if (now.y > before.y + 1 || now.x > before.x + 1) { s.size = before; return {grew: true}; }
    }
    return {grew: false};
  };

  /** The texts within what is scrolled that can be seen, each with its element,
   * in the order in which they are read. */
  const texts = function* (node) {
    const walk = function* (n) {
      for (const c of n.assignedNodes ? (n.assignedNodes().length ? n.assignedNodes() : n.childNodes) : n.childNodes) {
        if (c.nodeType === 3) { if (c.data.trim()) yield c; continue; }
        if (c.nodeType !== 1 || ['script', 'style', 'noscript', 'template'].includes(c.localName)) continue;
        yield* walk(shadowOf(c) || c);
      }
    };
    yield* walk(node === root() ? document.body || node : node);
  };

  /**
   * Looks for a text within what is scrolled, or in the whole page, and
   * scrolls it into view. White space is collapsed, and case does not matter.
   */
  lib.findText = async (_, wanted, whole) => {
    const s = lib.scrolling;
    if (!s) return {missed: true};
    const fold = (t) => t.replace(/\s+/g, ' ').toLowerCase();
    const want = fold(wanted).trim();
    // Words that stand in neighboring elements may belong together or not: a
    // text is looked for without any white space, which leaves that open.
    const bare = want.replace(/ /g, '');
    let all = '';
    const starts = [];
    for (const t of texts(whole ? root() : s.node)) {
      const parent = t.parentElement || t.parentNode.host;
      if (!parent || !parent.checkVisibility({visibilityProperty: true})) continue;
      starts.push([all.length, parent]);
      all += t.data.replace(/\s+/g, '').toLowerCase();
      if (all.length > 4000000) break;
    }
    const at = all.indexOf(bare);
    if (at < 0 || !bare) return {found: false};
    let el = null;
    for (const [start, parent] of starts) { if (start > at) break; el = parent; }
    return {found: true, ...await lib.bring(el)};
  };

  /** Scrolls an element into view, of which anything may be seen already. */
  lib.bring = async (el) => {
    const r = () => rects(el)[0];
    const inView = () => { const b = r(); return !!b && b.bottom > 0 && b.right > 0 && b.top < innerHeight && b.left < innerWidth && !hiddenBy(el, b); };
    if (!inView()) {
      el.scrollIntoView({block: 'center', inline: 'nearest', behavior: 'instant'});
      await frame();
    }
    return {tag: el.localName, seen: line(el.textContent, 120), inView: inView()};
  };

  /** Whether a box around el that scrolls leaves nothing of it to see. */
  const hiddenBy = (el, b) => {
    for (let n = up(el); n; n = up(n)) {
      if (n.nodeType !== 1 || n === root() || n === document.body) continue;
      const style = getComputedStyle(n);
      if (style.overflowX === 'visible' && style.overflowY === 'visible') continue;
      const c = n.getBoundingClientRect();
      if (b.bottom <= c.top || b.top >= c.bottom || b.right <= c.left || b.left >= c.right) return true;
    }
    return false;
  };
}
