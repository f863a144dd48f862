// Puts the functions that aim at an element into this world: whether it can be
// acted on, where its point is, and what lies there.
function (version) {
  const lib = {version};
  globalThis.__piChromeInput = lib;

  const CONTROL = 'a[href],area[href],button,input:not([type=hidden]),select,textarea,summary,label,option,iframe,embed,object,video[controls],audio[controls],' +
    '[contenteditable=""],[contenteditable=true],[contenteditable=plaintext-only],[tabindex],[onclick],' +
    ['button', 'link', 'checkbox', 'radio', 'switch', 'tab', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'option',
      'treeitem', 'combobox', 'textbox', 'searchbox', 'slider', 'spinbutton'].map((role) => `[role=${role}]`).join(',');

  /** The parent as it is rendered: through slots and out of shadow roots. */
  const up = (n) => n.assignedSlot || (n instanceof ShadowRoot ? n.host : n.parentNode);

  /** The closed shadow roots around an element: from outside them no element
   * tells that it stands in one of their slots. */
  const closedRoots = (el) => {
    const list = [];
    for (let root = el.getRootNode(); root instanceof ShadowRoot; root = root.host.getRootNode()) if (root.mode === 'closed') list.push(root);
    return list;
  };

  /** Whether a is b or contains it, through shadow roots. */
  const contains = (a, b) => {
    const roots = closedRoots(a);
    const slot = (n) => {
      const root = roots.find((r) => r.host === n.parentNode);
      return root && [...root.querySelectorAll('slot')].find((s) => s.assignedNodes().includes(n));
    };
    for (let n = b; n; n = slot(n) || up(n)) if (n === a) return true;
    return false;
  };

  /** The nearest element at or above n, through shadow roots, that matches. */
  const nearest = (n, selector) => {
    for (; n; n = up(n)) if (n.nodeType === 1 && n.matches(selector)) return n;
    return null;
  };

  /** An element as a person would write it: div#overlay, p.note.dark. */
  const describe = (el) => {
    if (!el || el.nodeType !== 1) return 'document';
    const id = el.getAttribute('id');
    const mark = id ? '#' + id : [...el.classList].slice(0, 3).map((c) => '.' + c).join('');
    return (el.localName + mark).slice(0, 80);
  };

  /** One animation frame, or 100 ms where frames do not come. */
  const frame = () => new Promise((done) => {
    const timer = setTimeout(done, 100);
    requestAnimationFrame(() => { clearTimeout(timer); done(); });
  });

  /** The boxes of an element that is laid out, in the frame's viewport. */
  const rects = (el) => {
    if (el.localName === 'area') return areaRects(el);
    const real = (list) => [...list].filter((r) => r.width > 0 && r.height > 0);
    const own = real(el.getClientRects());
    if (own.length) return own;
    const range = document.createRange();
    range.selectNodeContents(el);
    return real(range.getClientRects());
  };

  /** The picture that shows an area: the first one that is rendered. */
  const mapImage = (area) => {
    const map = area.closest('map');
    if (!map || !map.name) return null;
    const all = [...area.getRootNode().querySelectorAll(`img[usemap="#${CSS.escape(map.name)}"]`)];
    return all.find((img) => img.checkVisibility({visibilityProperty: true})) || null;
  };

  /** What transforms and zoom make of a step of one pixel in an element; where
   * to is not asked. A perspective is left out. */
  const linear = (el) => {
    let m = new DOMMatrix().scale(el.currentCSSZoom || 1);
    for (let n = el; n; n = up(n)) {
      if (n.nodeType !== 1) continue;
      const style = getComputedStyle(n);
      if (style.transform !== 'none') m = new DOMMatrix(style.transform).multiply(m);
      if (style.scale !== 'none') m = new DOMMatrix(`scale(${style.scale.split(' ').slice(0, 2).join(',')})`).multiply(m);
      if (/^[-\d.]+deg$/.test(style.rotate)) m = new DOMMatrix(`rotate(${style.rotate})`).multiply(m);
    }
    return m;
  };

  /** The way from the pixels of an element's box to the viewport. The middle of
   * a box stays the middle of the box around it, however it is turned. */
  const placer = (el) => {
    const m = linear(el), around = el.getBoundingClientRect();
    const cx = around.x + around.width / 2, cy = around.y + around.height / 2;
    return (x, y) => {
      const dx = x - el.offsetWidth / 2, dy = y - el.offsetHeight / 2;
      return {x: cx + m.a * dx + m.c * dy, y: cy + m.b * dx + m.d * dy};
    };
  };

  /** The box of an area in the pixels of its picture, from whose border on
   * Chrome counts, the corners of its polygon, and the way to the viewport. */
  const areaShape = (area) => {
    const img = mapImage(area);
    if (!img) return null;
    const n = area.coords.split(/[\s,;]+/).map(Number), kind = area.shape.toLowerCase();
    let box = [0, 0, img.offsetWidth, img.offsetHeight], corners = [];
    if (/^circ/.test(kind) && n.length >= 3) box = [n[0] - n[2], n[1] - n[2], n[0] + n[2], n[1] + n[2]];
    else if (kind !== 'default' && n.length >= 4) {
      for (let i = 0; i + 1 < n.length; i += 2) corners.push([n[i], n[i + 1]]);
      const xs = corners.map((c) => c[0]), ys = corners.map((c) => c[1]);
      box = [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
      if (!/^poly/.test(kind)) corners = [];
    }
    return {box, corners, place: placer(img)};
  };

  const areaRects = (area) => {
    const shape = areaShape(area);
    if (!shape) return [];
    const [left, top, right, bottom] = shape.box;
    const all = [shape.place(left, top), shape.place(right, top), shape.place(left, bottom), shape.place(right, bottom)];
    const xs = all.map((p) => p.x), ys = all.map((p) => p.y);
    const x = Math.min(...xs), y = Math.min(...ys);
    return [new DOMRect(x, y, Math.max(...xs) - x, Math.max(...ys) - y)];
  };

  /** Points of an area, the best first. Whether another area lies on one, and
   * whether one is in the polygon, only a look at the page tells. */
  const areaSpots = (area, spread) => {
    const {box: [left, top, right, bottom], corners, place} = areaShape(area);
    const list = spots(new DOMRect(left, top, right - left, bottom - top), spread);
    corners.slice(0, 60).forEach(([x, y], i) => {
      // Beside the middle of each side of a polygon, on both hands.
      const [x2, y2] = corners[(i + 1) % corners.length], length = Math.hypot(x2 - x, y2 - y) || 1;
      for (const d of [3, -3]) list.push({x: (x + x2) / 2 - d * (y2 - y) / length, y: (y + y2) / 2 + d * (x2 - x) / length});
    });
    return list.map((p) => place(p.x, p.y));
  };

  /** One box around all of an element, for comparing where it is. */
  const bounds = (el) => {
    const own = el.getBoundingClientRect();
    if (own.width > 0 && own.height > 0) return own;
    const list = rects(el);
    if (!list.length) return own;
    const left = Math.min(...list.map((r) => r.left)), top = Math.min(...list.map((r) => r.top));
    return new DOMRect(left, top, Math.max(...list.map((r) => r.right)) - left, Math.max(...list.map((r) => r.bottom)) - top);
  };

  const near = (a, b, by) => Math.abs(a.x - b.x) <= by && Math.abs(a.y - b.y) <= by &&
    Math.abs(a.width - b.width) <= by && Math.abs(a.height - b.height) <= by;

  const shown = (el) => {
    if (el.localName === 'area') return !!mapImage(el);
    if (el.checkVisibility({visibilityProperty: true})) return true;
    const style = getComputedStyle(el);
    const parent = up(el);
    return style.display === 'contents' && style.visibility === 'visible' &&
      (!parent || parent.nodeType !== 1 || parent.checkVisibility());
  };

  /** Why an element cannot be acted on, or "". */
  const refusal = (el) => {
    for (let n = el; n; n = up(n)) {
      if (n.nodeType !== 1) continue;
      if (n.inert === true) return 'inert';
      if (n.ariaDisabled === 'true') return 'disabled';
    }
    if (el.matches(':disabled')) return 'disabled';
    const control = el.localName === 'label' ? el.control : nearest(el, 'button,input,select,textarea,option');
    return control && control.matches(':disabled') ? 'disabled' : '';
  };

  /** What a press at a point of the viewport would meet, seen from el's tree. */
  const at = (el, x, y) => {
    let hit = el.getRootNode().elementFromPoint(x, y);
    while (hit && hit.shadowRoot) {
      const inner = hit.shadowRoot.elementFromPoint(x, y);
      if (!inner || inner === hit || !contains(hit, inner)) break;
      hit = inner;
    }
    return hit;
  };

  /** Whether a press on hit is a press on el: itself, what it contains, the
   * control that it is a part of, or its label. */
  const accepts = (el, hit) => {
    if (!hit) return false;
    if (contains(el, hit)) return true;
    const control = nearest(el, CONTROL);
    if (control && nearest(hit, CONTROL) === control) return true;
    const label = nearest(hit, 'label');
    if (label && label.control && (label.control === el || label.control === control)) return true;
    return el.localName === 'label' && !!el.control && contains(el.control, hit);
  };

  /** Points of a box, the best first. */
  const spots = (r, spread) => {
    const list = spread ? [[spread.u, spread.v]] : [];
    list.push([0.5, 0.5]);
    if (r.width < 6 || r.height < 6) list.push([0, 0.5], [0.5, 0], [0, 0]); // what is tiny is hit at its edge only
    if (r.width >= 6 || r.height >= 6) {
      for (const v of [0.5, 0.25, 0.75, 0.08, 0.92]) for (const u of [0.5, 0.25, 0.75, 0.08, 0.92]) list.push([u, v]);
    }
    return list.map(([u, v]) => ({x: r.x + u * r.width, y: r.y + v * r.height}));
  };

  /** A point at which a press meets el, or what is in its way. On its way to
   * the page a press loses the fraction of a pixel, so that the points around
   * have to meet el as well; one of which that is not so is an edge. */
  const pick = (el, spread) => {
    const width = innerWidth, height = innerHeight;
    let blocker = null, point = null, outside = true, cut = false, edge = null;
    for (const r of rects(el).slice(0, 8)) {
      const left = Math.max(r.left, 0), top = Math.max(r.top, 0);
      const right = Math.min(r.right, width), bottom = Math.min(r.bottom, height);
      if (right <= left || bottom <= top) continue;
      outside = false;
      cut ||= right - left < r.width || bottom - top < r.height;
      const points = el.localName !== 'area' ? spots(new DOMRect(left, top, right - left, bottom - top), spread)
        : areaSpots(el, spread).filter((p) => p.x > left && p.x < right && p.y > top && p.y < bottom);
      for (const p of points) {
        const hit = at(el, p.x, p.y);
        if (accepts(el, hit)) {
          if (r.width < 6 || r.height < 6 || [-1, 1].every((d) => accepts(el, at(el, p.x + d, p.y + d)))) return {x: p.x, y: p.y};
          edge ||= {x: p.x, y: p.y, edge: true};
        } else if (!point) [blocker, point] = [hit, p];
      }
    }
    return {...edge, outside, cut, blocker, point};
  };

  const scrollers = (el) => {
    const list = [];
    for (let n = up(el); n; n = up(n)) {
      if (n.nodeType === 1 && (n.scrollHeight > n.clientHeight || n.scrollWidth > n.clientWidth)) list.push([n, n.scrollLeft, n.scrollTop]);
    }
    return list;
  };

  /** Whether an ancestor that scrolls hides the point. */
  const clipped = (el, p) => {
    for (let n = up(el); n; n = up(n)) {
      if (n.nodeType !== 1 || n === document.documentElement || n === document.body) continue;
      const style = getComputedStyle(n);
      if (style.overflowX === 'visible' && style.overflowY === 'visible') continue;
      // Without its scroll bars, which cover what is behind them.
      const r = n.getBoundingClientRect();
      const sx = n.offsetWidth ? r.width / n.offsetWidth : 1, sy = n.offsetHeight ? r.height / n.offsetHeight : 1;
      const left = r.left + n.clientLeft * sx, top = r.top + n.clientTop * sy;
      if (p.x < left || p.x > left + n.clientWidth * sx || p.y < top || p.y > top + n.clientHeight * sy) return true;
    }
    return false;
  };

  /** Scrolls what is around el so that a point of it comes to the middle. */
  const bring = (el, place, enough) => {
    for (let n = up(el); n; n = up(n)) {
      if (enough()) return;
      if (n.nodeType !== 1 || (n.scrollHeight <= n.clientHeight && n.scrollWidth <= n.clientWidth)) continue;
      const p = place(), r = n === document.documentElement ? new DOMRect(0, 0, innerWidth, innerHeight) : n.getBoundingClientRect();
      n.scrollBy({left: p.x - (r.x + r.width / 2), top: p.y - (r.y + r.height / 2), behavior: 'instant'});
    }
  };

  /** Whether what blocks moves with the screen and not with the page. */
  const stuck = (blocker) => {
    for (let n = blocker; n; n = up(n)) {
      if (n.nodeType === 1 && ['fixed', 'sticky'].includes(getComputedStyle(n).position)) return true;
    }
    return false;
  };

  /** Whether scrolling may help an element of which pick found no point: it is
   * outside, even partly (of a turned one the corner that is seen may be no
   * part of it), or under what does not move with the page. */
  const unseen = (el, found) => found.outside || found.cut || bar(found.blocker) || clipped(el, found.point) || stuck(found.blocker);

  /** Whether a hit is of a scroll bar of the frame: on one at the left Chrome
   * hits the root, on the others nothing. */
  const bar = (hit) => !hit || hit === document.documentElement;

  /** Waits until el has stood still for two frames; false after limit ms. */
  const still = async (el, limit) => {
    const end = performance.now() + limit;
    let last = bounds(el);
    for (let same = 0; same < 2;) {
      if (performance.now() > end) return false;
      await frame();
      const now = bounds(el);
      same = near(last, now, 0.5) ? same + 1 : 0;
      last = now;
    }
    return true;
  };

  const view = () => ({width: innerWidth, height: innerHeight, offsetX: visualViewport?.offsetLeft || 0, offsetY: visualViewport?.offsetTop || 0});
  const plainRect = (r) => ({x: r.x, y: r.y, width: r.width, height: r.height});

  /**
   * Finds the point to press: the element is attached, enabled, visible, still
   * and not covered. It is scrolled into view when it is outside.
   * @param {Element} el
   * @param {{x:number,y:number,width:number,height:number}|null} expected its
   *   box when it was last seen: when it is still there, it stands still
   * @param {{limit:number, spread?:{u:number,v:number}, disabledOk?:boolean, anyHit?:boolean, fileOk?:boolean}} options
   *   what to let pass: the disabled, the covered, what opens the file dialog
   */
  lib.aim = async (el, expected, options) => {
    if (el === globalThis) el = lib.control;
    if (!el || !el.isConnected) return {state: 'stale'};
    const requested = el;
    let from = '';
    if (!shown(el) || !rects(el).length) {
      // A control without a box of its own is worked through its label.
      const label = el.labels && [...el.labels].find((l) => shown(l) && rects(l).length);
      if (label) [el, from] = [label, requested.localName];
    }
    const control = nearest(el, CONTROL);
    const part = control && control !== el && !from ? control : null;
    const about = {tag: (part || el).localName, requestedTag: '', promotedFromTag: ''};
    if (part || from) about.requestedTag = about.promotedFromTag = requested.localName;
    about.interactive = !!control;
    const no = refusal(requested) || refusal(el) || (part && refusal(part));
    if (no && !options.disabledOk) return {state: no, ...about};
    const chosen = (part || el).localName === 'label' ? (part || el).control : part || el;
    if (!options.fileOk && chosen && chosen.localName === 'input' && chosen.type === 'file') return {state: 'file', ...about};
    if (!shown(el)) return {state: 'invisible', reason: 'it is not rendered', ...about};
    if (!rects(el).length) return {state: 'invisible', reason: 'it has no size', ...about};

    const before = scrollers(el);
    const restore = () => { for (const [n, left, top] of before) n.scrollTo({left, top, behavior: 'instant'}); };
    const quiet = expected && near(bounds(el), expected, 1);
    if (!quiet && !await still(el, options.limit)) return {state: el.isConnected ? 'unstable' : 'stale', ...about};
    let found = pick(el, options.spread), scrolled = false;
    for (const block of ['nearest', 'center', 'start', 'end']) {
      if ('x' in found && !(found.edge && found.point)) break;
      if (!unseen(el, found)) break;
      const box = el.localName === 'area' && mapImage(el) || el;
      box.scrollIntoView({block, inline: block === 'center' ? 'center' : 'nearest', behavior: 'instant'});
      scrolled = true;
      if (!await still(el, options.limit)) return {state: el.isConnected ? 'unstable' : 'stale', ...about};
      found = pick(el, options.spread);
    }
    if (!el.isConnected) return {state: 'stale', ...about};
    if (!('x' in found)) {
      if (found.outside) return {state: 'invisible', reason: 'it stays outside the viewport', ...about};
    }
    if (!('x' in found) && options.anyHit) found = found.point;
    if (!('x' in found)) {
      const {blocker, point} = found;
      if (scrolled) restore();
      const within = blocker && nearest(blocker, '[id],dialog,[role=dialog]');
      return {state: 'covered', blocker: describe(blocker), within: within && within !== blocker ? describe(within) : '', x: point.x, y: point.y, ...about};
    }
    lib.target = el;
    return {state: 'ok', x: found.x, y: found.y, box: plainRect(bounds(el)), scrolled, view: view(), ...about};
  };

  /**
   * The last look before the press, after the pointer has moved there: the
   * element of the last aim is attached, enabled, where it was, and on top.
   * @param {any} _
   * @param {number} x @param {number} y
   * @param {{x:number,y:number,width:number,height:number}} box
   */
  lib.check = (_, x, y, box) => {
    const el = lib.target;
    if (!el || !el.isConnected) return {state: 'stale'};
    const no = refusal(el);
    if (no) return {state: no};
    const hit = at(el, x, y);
    if (accepts(el, hit)) return {state: near(bounds(el), box, 2) ? 'ok' : 'moved'};
    if (!near(bounds(el), box, 2)) return {state: 'moved'};
    const within = hit && nearest(hit, '[id],dialog,[role=dialog]');
    return {state: 'covered', blocker: describe(hit), within: within && within !== hit ? describe(within) : ''};
  };

  /** Whether a press at the point meets the frame's own element. What lies
   * under a scroll bar, of the page or of what the element stands in, or under
   * something that moves with the screen is scrolled to the middle, and has
   * moved then. */
  lib.over = (el, x, y) => {
    if (!el.isConnected) return {state: 'stale'};
    const hit = at(el, x, y);
    if (hit === el) return {state: 'ok'};
    if (bar(hit) || contains(hit, el) || stuck(hit) || clipped(el, {x, y})) {
      const was = el.getBoundingClientRect();
      const place = () => { const r = el.getBoundingClientRect(); return {x: r.x + x - was.x, y: r.y + y - was.y}; };
      bring(el, place, () => false);
      if (!near(was, el.getBoundingClientRect(), 1)) return {state: 'moved'};
    }
    return {state: 'covered', blocker: describe(hit), within: ''};
  };

  /** Scrolls a frame's element so that the part at that share of its content is
   * seen. What is at the very edge is not: coordinates lose fractions. */
  lib.reveal = async (el, u, v) => {
    if (!el.isConnected) return {state: 'stale'};
    const style = getComputedStyle(el), pad = (side) => parseFloat(style['padding' + side]) || 0;
    const x = el.clientLeft + pad('Left') + u * (el.clientWidth - pad('Left') - pad('Right'));
    const y = el.clientTop + pad('Top') + v * (el.clientHeight - pad('Top') - pad('Bottom'));
    const wanted = () => placer(el)(x, y);
    const inside = (by) => { const p = wanted(); return p.x > by && p.y > by && p.x < innerWidth - by && p.y < innerHeight - by && !clipped(el, p); };
    if (!inside(1)) el.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
    bring(el, wanted, () => inside(1));
    await frame();
    return {state: inside(0) ? 'ok' : 'invisible'};
  };

  lib.view = () => view();

  lib.frame = async () => { await frame(); return {}; };

  /** What lies at a point of the viewport, through open shadow roots. */
  lib.at = (_, x, y) => {
    const hit = at(document.documentElement, x, y);
    lib.target = hit;
    return {tag: hit ? hit.localName : '', view: view(), disabled: hit ? refusal(hit) : ''};
  };

  Object.assign(lib, {tools: {up, contains, nearest, describe, frame, shown, rects, refusal, pick, stuck, unseen, CONTROL}});
}
