// One walk over one frame's document, in the flat tree: through shadow roots
// that are open or were handed in, and through slots. It decides nothing; it
// returns evidence in compact columns, and the caller classifies.
//
// opts: {rows, ms, text, chars, hosts, boxes, tell, told}: how many rows, how
// long, how many characters a text and all texts, how many possible hosts at
// most, whether every element's box is looked at, what the parts of a long walk
// are told by, and how many characters of them. roots: closed shadow roots that
// the caller found.
//
// Returns [meta as JSON, columns, texts, attributes, relations, ...elements],
// or, where that would be long, [meta as JSON, ...elements]: the four lists came
// in parts then, while the walk went on. Each is told to the debugger by the
// binding, as "tell token walk list\npart", with the number of the list from 0;
// what would be too much is kept for js/walk_part.js. meta.parts is how many
// parts of each list there are, meta.kept how many of those are kept, the last
// ones. In detail:
// - columns: whole numbers, packed: groups of five bits, the lowest first, of
//   which all but the last have bit 6 set, as characters from "#" on without
//   the backslash. A row is a kind and a depth. Kind 0 is a text, 1 a text
//   with white space before it, n+2 an element of meta.kinds[2n], the index of
//   its tag, and meta.kinds[2n+1], its flags. A candidate goes on with num, x
//   and y as differences to the candidate before, signed (2n or -2n-1), and
//   with width and height.
// - texts: one for each text row, separated by form feeds.
// - attributes: "key=value", separated by backspaces, of each row that has
//   some, separated by form feeds.
// - relations: "kind,row,target,target;…"; kinds: l label row to control row,
//   b labelled by, d described by, o owns.
// - elements: the frame elements (meta.frames has their rows), then possible
//   hosts of closed shadow roots.
(opts, ...roots) => {
  const get = (proto, name) => Object.getOwnPropertyDescriptor(proto, name).get;
  const N = Node.prototype, E = Element.prototype, D = Document.prototype, H = HTMLElement.prototype;
  // A form's and the document's named elements hide their own properties, so
  // everything is asked through the prototypes.
  const call = Function.prototype.call;
  const un = (fn) => call.bind(fn);
  const firstChild = un(get(N, 'firstChild')), nextSibling = un(get(N, 'nextSibling'));
  const firstElement = un(get(E, 'firstElementChild')), textContent = un(get(N, 'textContent'));
  const nodeType = un(get(N, 'nodeType')), nodeValue = un(get(N, 'nodeValue'));
  const localName = un(get(E, 'localName')), namespace = un(get(E, 'namespaceURI'));
  const shadowRoot = un(get(E, 'shadowRoot'));
  const attrNames = un(E.getAttributeNames), attr = un(E.getAttribute), hasAttr = un(E.hasAttribute);
  const box = un(E.getBoundingClientRect), checkVisibility = un(E.checkVisibility);
  const editable = un(get(H, 'isContentEditable'));
  const matches = un(E.matches), queryAll = un(E.querySelectorAll);
  const doc = {
    all: (css) => un(D.querySelectorAll)(document, css), byTag: (tag) => un(D.getElementsByTagName)(document, tag),
    get: (name) => get(D, name).call(document),
  };

  const S = globalThis.__piChrome ||= {
    token: Array.from(crypto.getRandomValues(new Uint32Array(3)), (n) => n.toString(36)).join(''),
    next: 1, num: Symbol('num'), byNum: new Map(), closed: new WeakMap(), plain: new WeakMap(), texty: Symbol('texty'),
    walk: 0, rows: [], ref: 0, style: Symbol('style'), styles: 0, kept: new Map(),
  };
  for (const root of roots) S.closed.set(root.host, root);
  if (S.byNum.size > 4096) for (const [n, ref] of S.byNum) if (!ref.deref()?.isConnected) S.byNum.delete(n);
  S.walk++;
  const rows = S.rows = [];

  // What a message holds at most: Chrome is several times slower with one of a
  // megabyte than with ten of a tenth. Told while the walk goes on, they are on
  // their way meanwhile.
  const PART = 1 << 15;
  const tell = opts.tell && globalThis.__piChromeTell;
  const parts = [0, 0, 0, 0], kept = [[], [], [], []];
  let told = 0;
  const part = (list, s) => {
    s = s.toWellFormed();
    parts[list]++;
    if (!tell || told + s.length > opts.told) { kept[list].push(s); told = Infinity; return; }
    told += s.length;
    tell(opts.tell + ' ' + S.token + ' ' + S.walk + ' ' + list + '\n' + s);
  };
  // Texts that are joined as they come: thousands of short ones that live until
  // the end are work for the collector.
  const column = (list, separator) => {
    let some = [], size = 0;
    const rest = () => { const s = some.join(separator); some = []; size = 0; return s; };
    return {add: (s) => { some.push(s); size += s.length + 1; if (size >= PART) part(list, rest()); }, rest, get size() { return some.length && size; }};
  };

  const start = performance.now();
  // Each of these makes Chrome look whether the layout is current.
  const vw = innerWidth, vh = innerHeight, goneX = scrollX, goneY = scrollY;
  const cols = new Uint8Array(PART), latin = new TextDecoder('latin1');
  let used = 0, lastNum = 0, lastX = 0, lastY = 0;
  const kinds = [], kindIndex = new Map();
  const texts = column(1, '\f'), attrs = column(2, '\f'), relations = [], frames = [], hosts = [], weakHosts = [];
  const tags = [], tagIndex = new Map();
  const refs = []; // [kind, row, elements]
  const labels = []; // [row, control]
  let chars = 0, textsCut = 0, left = 0, truncated = '', hostsLeft = 0;

  const SKIP = new Set(['script', 'style', 'noscript', 'template', 'head', 'datalist', 'link', 'meta', 'base', 'param', 'source', 'track',
    'svg:defs', 'svg:clipPath', 'svg:mask', 'svg:linearGradient', 'svg:radialGradient', 'svg:filter', 'svg:pattern', 'svg:marker', 'svg:metadata',
    'svg:script', 'svg:style', 'math:annotation', 'math:annotation-xml']);
  const CAND = new Set(['a', 'button', 'input', 'select', 'textarea', 'summary', 'option', 'area', 'details', 'dialog', 'label', 'iframe', 'frame',
    'audio', 'video', 'embed', 'object', 'main', 'nav', 'aside', 'header', 'footer', 'section', 'article', 'form',
    'fieldset', 'table', 'search', 'svg:a', 'output', 'meter', 'progress', 'ul', 'ol', 'menu', 'dl', 'figure']);
  // What may be acted on by its kind; the other candidates group.
  const ACTIVE = new Set(['a', 'summary', 'area', 'label', 'iframe', 'frame', 'audio', 'video', 'embed', 'object', 'svg:a', 'fieldset']);
  const CONTROL = new Set(['input', 'select', 'textarea', 'button', 'option', 'details', 'dialog', 'meter', 'progress', 'output']);
  const NOKIDS = new Set(['input', 'textarea', 'meter', 'progress', 'video', 'audio', 'iframe', 'frame', 'embed', 'img', 'br', 'hr', 'wbr', 'area', 'col']);
  const HOSTABLE = new Set(['div', 'span', 'section', 'article', 'aside', 'main', 'nav', 'header', 'footer', 'p', 'blockquote', 'body', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6']);
  const ATTRS = new Set(['role', 'aria-label', 'aria-labelledby', 'aria-describedby', 'aria-owns', 'aria-hidden', 'aria-checked', 'aria-selected',
    'aria-expanded', 'aria-pressed', 'aria-disabled', 'aria-required', 'aria-invalid', 'aria-readonly', 'aria-current', 'aria-level', 'aria-modal',
    'aria-haspopup', 'aria-valuetext', 'aria-valuenow', 'aria-placeholder', 'aria-multiline', 'aria-multiselectable', 'aria-orientation',
    'aria-roledescription', 'aria-live', 'aria-activedescendant', 'aria-busy', 'aria-sort', 'aria-setsize', 'aria-posinset', 'aria-brailleroledescription',
    'aria-controls', 'aria-description', 'aria-details', 'aria-atomic', 'aria-keyshortcuts', 'aria-relevant', 'aria-errormessage', 'aria-autocomplete',
    'title', 'alt', 'placeholder', 'type', 'name', 'id', 'href', 'tabindex', 'contenteditable', 'inert', 'hidden', 'open', 'list', 'autocomplete', 'multiple',
    'size', 'scope', 'summary', 'onclick', 'draggable', 'data-testid', 'usemap', 'src', 'popover', 'readonly', 'required', 'start', 'reversed', 'cite',
    'controls', 'colspan', 'rowspan', 'headers', 'inputmode', 'label', 'disabled', 'min', 'max', 'xlink:href', 'popovertarget', 'accesskey', 'maxlength',
    'accept', 'form', 'border', 'rules', 'abbr', 'span', 'is', 'datetime', 'lang', 'switch']);
  // Those that make no difference without a role or a control are left out of
  // plain elements, where they are most of the bytes.
  const ONLYCAND = new Set(['id', 'name', 'type', 'size', 'label', 'form', 'lang', 'src', 'span', 'draggable']);
  const SECRET = /password|passwd|pwd|secret|token|bearer|api[-_ ]?key|access[-_ ]?key|auth[-_ ]?code|one[-_ ]?time|otp|2fa|mfa|verification[-_ ]?code|recovery[-_ ]?code|credit[-_ ]?card|card[-_ ]?number|cc-number|cc-csc|cvc|cvv|security[-_ ]?code|ssn|social[-_ ]?security/i;

  const F = {box: 1, view: 2, inline: 4, contents: 8, pointer: 16, hidden: 32, invisible: 64, noEvents: 128, inert: 256, disabled: 512,
    editable: 1024, cand: 2048, attrs: 4096, space: 8192, top: 16384, focusable: 32768, atomic: 65536, refOnly: 131072, pre: 262144, flexItem: 524288, closedHost: 1048576,
    autoText: 2097152, clipped: 4194304};

  const SHAPES = new Set(['svg:path', 'svg:circle', 'svg:ellipse', 'svg:rect', 'svg:line', 'svg:polyline', 'svg:polygon', 'svg:use']);
  const FOREIGN = new Set(['svg', 'math']);
  // html: the parent is of HTML, so that only svg and math leave it.
  const tagOf = (el, html) => {
    let name = localName(el);
    if (html && !FOREIGN.has(name)) return name;
    const ns = namespace(el);
    if (ns === 'http://www.w3.org/2000/svg') name = 'svg:' + name;
    else if (ns !== 'http://www.w3.org/1999/xhtml') name = (ns && ns.endsWith('MathML') ? 'math:' : 'x:') + name;
    return name;
  };
  const indexOf = (tag) => {
    let i = tagIndex.get(tag);
    if (i === undefined) { i = tags.length; tags.push(tag); tagIndex.set(tag, i); }
    return i;
  };
  // What a display value means: flags, and whether the children are items of
  // a flex box or grid.
  const FLEX = 1 << 30, NOBOX = 1 << 29;
  const displays = new Map();
  const kindOf = (d) => (d === 'contents' ? F.contents | F.inline : d === 'inline' || d.startsWith('ruby') ? F.inline
    : d.startsWith('inline-') ? F.inline | F.atomic : 0) | (/flex|grid/.test(d) ? FLEX : 0) | (d.startsWith('table-column') ? NOBOX : 0);
  const packed = () => { const s = latin.decode(cols.subarray(0, used)); used = 0; return s; };
  const put = (n) => {
    if (used + 8 > PART) part(0, packed());
    do {
      let c = (n & 31) + 35;
      n >>>= 5;
      if (n) c += 32;
      cols[used++] = c < 92 ? c : c + 1;
    } while (n);
  };
  const putSigned = (n) => put(n < 0 ? -2 * n - 1 : 2 * n);
  const kindAt = (tag, flags) => {
    const key = tag * 8388608 + flags;
    let i = kindIndex.get(key);
    if (i === undefined) { i = kindIndex.size; kinds.push(tag, flags); kindIndex.set(key, i); }
    return i + 2;
  };
  const far = (n) => n > 1e8 ? 1e8 : n < -1e8 ? -1e8 : Math.round(n);
  const numOf = (el) => {
    let n = el[S.num];
    if (n === undefined) { n = S.next++; el[S.num] = n; }
    return n;
  };
  const BREAKS = /[\b\f]/, ALLBREAKS = /[\b\f]/g;
  const clean = (s, max) => {
    if (s.length > max) s = s.slice(0, max);
    // The separators of the columns.
    return BREAKS.test(s) ? s.replace(ALLBREAKS, ' ') : s;
  };

  // What a control holds, as attributes of our own that begin with "~".
  let held = '';
  const hold = (k, v) => { held += (held ? '\b~' : '~') + k + '=' + clean(String(v), 400); };
  const control = (el, tag, names) => {
    held = '';
    if ((tag === 'input' || tag === 'textarea' || tag === 'select') && matches(el, ':invalid')) hold('iv', 1);
    switch (tag) {
      case 'input': {
        const type = el.type;
        hold('t', type);
        if (type === 'checkbox' || type === 'radio') {
          hold('c', el.indeterminate ? 'm' : el.checked ? 1 : 0);
          break;
        }
        if (type === 'file') { hold('n', el.files ? el.files.length : 0); break; }
        value(el, type, names);
        if (names.includes('list') && el.list) hold('list', 1);
        break;
      }
      case 'textarea':
        value(el, '', names);
        break;
      case 'select': {
        const chosen = [];
        for (const o of el.selectedOptions) { chosen.push(o.label || o.text); if (chosen.length === 5) break; }
        if (chosen.length) hold('v', chosen.join(', ') + (el.selectedOptions.length > 5 ? ', …' : ''));
        const all = [];
        for (const o of el.options) { all.push(clean(o.label || o.text, 60).replace(/\s+/g, ' ').trim()); if (all.length === 12) break; }
        hold('o', all.join(' | '));
        hold('n', el.options.length);
        hold('s', el.selectedOptions.length);
        hold('lb', el.multiple || el.size > 1 ? 1 : 0);
        break;
      }
      case 'option':
        hold('c', el.selected ? 1 : 0);
        break;
      case 'meter': case 'progress':
        hold('v', tag === 'progress' && el.position < 0 ? '' : el.value);
        break;
      case 'dialog':
        if (matches(el, ':modal')) hold('m', 1);
        break;
    }
    return held;
  };
  const HINTS = new Set(['name', 'id', 'autocomplete', 'placeholder', 'data-testid', 'aria-label']);
  const value = (el, type, names) => {
    const v = el.value;
    hold('vl', v.length);
    let secret = type === 'password';
    if (!secret) {
      let hints = '';
      for (let i = 0; i < names.length; i++) if (HINTS.has(names[i])) hints += attr(el, names[i]) + ' ';
      secret = SECRET.test(hints);
    }
    if (secret) hold('x', 1);
    // A secret does not leave the page, not even as far as our caller.
    else if (v) hold('v', v);
  };

  // A fragment or a path of plain characters, which the caller can join to the
  // document's address by itself.
  const PLAIN = /^(?:#[\w.~!$&'()*+,;=:@\/?-]*|\/(?:[\w~-][\w.~$&()*+,;=:@-]*\/?)*(?:\?[\w.~$&()*+,;=:@\/?-]*)?(?:#[\w.~-]*)?)$/;
  const plainBase = (location.protocol === 'http:' || location.protocol === 'https:') && document.baseURI.replace(/#.*/s, '') === location.href.replace(/#.*/s, '');

  // The one modal dialog that makes the rest inert: the last opened.
  let modal = null;
  for (const d of doc.all('dialog:modal')) modal = d;
  const stack = [];
  const root = doc.get('documentElement');
  if (root) stack.push({list: [root], i: 0, next: null, row: -1, depth: 0, inh: (modal ? F.inert : 0) | (doc.get('designMode') === 'on' ? F.editable : 0), cursor: false, space: false, flex: false, boxes: !!opts.boxes, clip: null, el: null, lines: undefined, skipped: undefined, html: true});

  const emit = (el, tag, frame, flags, cand, r, names) => {
    const row = rows.length;
    rows.push(el);
    let out = '';
    for (let i = 0; i < names.length; i++) {
      const k = names[i];
      if (!ATTRS.has(k) || (!cand && ONLYCAND.has(k))) continue;
      const max = k === 'src' ? (tag === 'iframe' || tag === 'frame' ? 300 : 0) : k === 'href' || k === 'xlink:href' ? 600 : 1000;
      const one = k + '=' + (max ? clean(attr(el, k), max) : '');
      out = out ? out + '\b' + one : one;
      if (k === 'aria-labelledby') refs.push(['b', row, el.ariaLabelledByElements || []]);
      else if (k === 'aria-owns') refs.push(['o', row, el.ariaOwnsElements || []]);
      else if (k === 'href' && (tag === 'a' || tag === 'area')) {
        // Where it leads, unless that can be told from the attribute.
        const href = attr(el, k);
        if (!(plainBase && PLAIN.test(href)) && el.href !== href) out += '\b~u=' + clean(el.href, 800);
      }
    }
    if (CONTROL.has(tag)) { const own = control(el, tag, names); if (own) out = out ? out + '\b' + own : own; }
    if (out) { flags |= F.attrs; attrs.add(out); }
    if (tag === 'label' && el.control) labels.push([row, el.control]);
    flags |= (cand ? F.cand : 0) | (frame.space ? F.space : 0);
    put(kindAt(indexOf(tag), flags));
    put(frame.depth);
    if (cand) {
      const n = numOf(el), x = far(r.x), y = far(r.y);
      putSigned(n - lastNum); putSigned(x - lastX); putSigned(y - lastY);
      lastNum = n; lastX = x; lastY = y;
      put(far(r.width)); put(far(r.height));
    }
    frame.space = false;
    return row;
  };

  const none = {x: 0, y: 0, width: 0, height: 0};
  const walk = () => {
    while (stack.length) {
      const frame = stack[stack.length - 1];
      let node;
      if (frame.list) node = frame.list[frame.i++];
      else { node = frame.next; if (node) frame.next = nextSibling(node); }
      if (!node) { stack.pop(); continue; }
      const type = nodeType(node);
      if (type === 3) { text(node, frame); continue; }
      if (type !== 1) continue;
      if (rows.length >= opts.rows || ((rows.length & 511) === 511 && performance.now() - start > opts.ms)) {
        truncated = rows.length >= opts.rows ? 'rows' : 'time';
        return;
      }
      element(node, frame);
    }
  };

  const ODD = /[\t\n\r\f\b]| {2}|^ ?$/;
  const text = (node, frame) => {
    const s = nodeValue(node);
    if (said(s, frame.depth, frame.inh & F.pre, frame.space, frame.el, frame)) { rows.push(node); frame.space = false; return; }
    // White space alone matters only between what stands in one line.
    if (s && !frame.flex) frame.space = true;
  };
  // The text of an element that holds nothing else. Its node is not asked for:
  // that would make an object for each of them, and they are half of the page.
  const onlyText = (el, depth, pre) => {
    const s = textContent(el);
    if (said(s, depth, pre, false, el, null)) rows.push(null);
  };
  // Puts a text's row. It is none where the text is white space that nobody
  // sees. frame has what is known of the style of el, if that is known.
  const said = (s, depth, pre, space, el, frame) => {
    if (ODD.test(s)) {
      if (!/[^ \t\n\r\f]/.test(s) && !(pre && s)) return false;
      if (!pre && (!/\n/.test(s) || !el || !keepsLines(frame, el))) s = s.replace(/[ \t\n\r\f]+/g, ' ');
      s = clean(s, s.length);
    }
    const max = Math.min(opts.text, opts.chars - chars);
    if (s.length > max) { textsCut += s.length - Math.max(0, max); s = s.slice(0, Math.max(0, max)); }
    chars += s.length;
    put(space ? 1 : 0);
    put(depth);
    texts.add(s);
    return true;
  };
  const keepsLines = (frame, el) => {
    if (frame && frame.lines !== undefined) return frame.lines;
    const ws = getComputedStyle(el).whiteSpaceCollapse;
    const lines = ws === 'preserve' || ws === 'preserve-breaks' || ws === 'break-spaces';
    if (frame) frame.lines = lines;
    return lines;
  };

  // Boxes looked at while the first text in the viewport is looked for; at the
  // top of the page reading begins with the first.
  let looked = goneY > 0 ? 0 : 50;

  // Whether something of the box is left by those around it.
  const unclipped = (r, style) => {
    const c = clipOf(stack.length - 1);
    return !c || r.bottom > c.top && r.right > c.left && r.top < c.bottom && r.left < c.right || style.position === 'fixed';
  };
  const clipOf = (top) => {
    let k = top;
    while (stack[k].clip === undefined) k--; // the first has one
    let c = stack[k].clip;
    for (k++; k <= top; k++) {
      const el = stack[k].el;
      if (el !== root && localName(el) !== 'body') {
        const style = getComputedStyle(el);
        if (c && style.position === 'fixed') c = null;
        if (style.overflowX !== 'visible' && style.display !== 'inline' && style.display !== 'contents') {
          const r = box(el);
          if (r.width > 0 && r.height > 0) {
            c = c ? {left: Math.max(c.left, r.left), top: Math.max(c.top, r.top), right: Math.min(c.right, r.right), bottom: Math.min(c.bottom, r.bottom)} : r;
          }
        }
      }
      stack[k].clip = c;
    }
    return c;
  };

  // A style says what holds when it is asked. It is kept with its element, on
  // the side of it that only this world sees: making one anew for each element
  // and walk is most of what the collector has to do.
  const styleOf = (el) => {
    let style = el[S.style];
    if (!style) {
      style = getComputedStyle(el);
      if (S.styles < 50000) { S.styles++; el[S.style] = style; }
    }
    return style;
  };

  const element = (el, frame) => {
    const tag = tagOf(el, frame.html);
    if (SKIP.has(tag)) return;
    const names = attrNames(el);
    if (SHAPES.has(tag) && el[S.num] === undefined && !firstChild(el) && !names.some((k) => k === 'role' || k === 'tabindex' || k === 'onclick' || k.startsWith('aria-'))) {
      // A line of a drawing says nothing; it has a row for its listeners.
      emit(el, tag, frame, F.inline, false, none, []);
      return;
    }
    if (tag === 'area' && !pictured(el)) return;
    const style = styleOf(el);
    const display = style.display;
    if ((tag === 'svg:title' || tag === 'svg:desc') && !frame.skipped) {
      // It has no box of its own, and names what it stands in.
      const row = emit(el, tag, frame, F.inline, false, none, names);
      stack.push({list: null, i: 0, next: firstChild(el), row, depth: frame.depth + 1, inh: frame.inh, cursor: frame.cursor, space: false, flex: false, boxes: false, clip: undefined, el, lines: undefined, skipped: undefined, html: false});
      return;
    }
    if (display === 'none' && tag !== 'area' || display === '' ) {
      // Not rendered. A file input works without a box, and so does a check
      // box behind its label.
      if (tag === 'input') hiddenInput(el, frame);
      else if (tag !== 'option' && tag !== 'optgroup') for (const i of queryAll(el, 'input[type=file],input[type=checkbox],input[type=radio]')) hiddenInput(i, frame);
      return;
    }
    let inh = frame.inh & (F.inert | F.pre | F.editable);
    if (el === modal) inh &= ~F.inert;
    let flags = 0, boxes = frame.boxes;
    const html = tag.indexOf(':') < 0;
    let active = CONTROL.has(tag) || ACTIVE.has(tag) || el[S.num] !== undefined || tag.indexOf('-') > 0;
    for (let i = 0; i < names.length; i++) {
      const k = names[i];
      if (k === 'role' || k === 'tabindex' || k === 'contenteditable' || k === 'onclick' || k === 'aria-label' || k === 'aria-labelledby' || k === 'popover') { active = true; if (k === 'contenteditable') inh |= F.editable; }
      else if (k === 'inert' && html) inh |= F.inert;
    }
    if (tag === 'pre' || tag === 'listing' || tag === 'plaintext') inh |= F.pre;
    // It is inherited; that a child takes it back is rare enough.
    const cursor = frame.cursor || style.cursor === 'pointer';
    if (cursor) { flags |= F.pointer; if (!frame.cursor) active = true; }
    const cand = active || CAND.has(tag);
    let kind = displays.get(display);
    if (kind === undefined) displays.set(display, kind = kindOf(display));
    flags |= kind & 0xffffff;
    if (frame.flex) flags |= F.flexItem;
    if (style.visibility !== 'visible') flags |= F.invisible;
    let r = none;
    if (display !== 'contents' && tag !== 'area') {
      // Whether a part is skipped is the same for all children of a parent.
      // The question costs as much as a box, so it is asked only where it is
      // not known: see shows.
      if (frame.skipped === undefined) frame.skipped = !checkVisibility(el);
      if (frame.skipped) flags |= F.hidden;
    }
    if (!(flags & F.hidden) && display !== 'contents') {
      // The box of what is no candidate says only where reading begins, and
      // whether an element without a box of its own has something in it.
      if (tag === 'area') flags |= F.box;
      else if (cand || boxes || looked < 50) {
        r = box(el);
        const w = r.width, h = r.height;
        if (w > 0 && h > 0) {
          const left = r.x, top = r.y;
          flags |= F.box;
          if (top + h > 0 && left + w > 0 && top < vh && left < vw && unclipped(r, style)) {
            flags |= F.view;
            if (looked < 50 && !cand) { const c = firstChild(el); if (c && nodeType(c) === 3) looked++; }
          }
          // Before the page's beginning: nothing scrolls there.
          if (cand && (left + w + goneX <= 0 || top + h + goneY <= 0)) flags |= F.clipped;
        } else if (cand) boxes = true;
      }
    } else if (cand && !(flags & F.hidden)) boxes = true;
    if (flags & F.hidden && tag !== 'input') {
      // In a part that is not rendered, such as closed details.
      for (const i of queryAll(el, 'input[type=file]')) hiddenInput(i, frame);
      return;
    }
    if (cand) {
      if (active && style.pointerEvents === 'none') flags |= F.noEvents;
      if (inh & F.editable && html && editable(el)) flags |= F.editable;
      if ((CONTROL.has(tag) || tag.indexOf('-') > 0 || tag === 'fieldset' || tag === 'optgroup') && matches(el, ':disabled')) flags |= F.disabled;
      if (active && el.tabIndex >= 0) flags |= F.focusable;
      if (tag === 'dialog' && flags & F.box && matches(el, ':modal')) flags |= F.top;
      else if (names.includes('popover') && matches(el, ':popover-open')) flags |= F.top;
    }
    const custom = html && tag.indexOf('-') > 0;
    const hostable = custom || HOSTABLE.has(tag);
    const own = hostable ? S.closed.get(el) : undefined;
    const shadow = own || (hostable ? shadowRoot(el) : null);
    if (own) flags |= F.closedHost;
    const row = emit(el, tag, frame, flags | (inh & F.inert) | (inh & F.pre), cand, r, names);
    if (tag === 'iframe' || tag === 'frame' || tag === 'object' || tag === 'embed') {
      if ((tag === 'iframe' || tag === 'frame' || el.contentDocument || el.contentWindow) && frames.length < 500) {
        const b = box(el), ow = el.offsetWidth || b.width || 1, oh = el.offsetHeight || b.height || 1;
        const sx = b.width / ow || 1, sy = b.height / oh || 1;
        const pl = parseFloat(style.paddingLeft) || 0, pt = parseFloat(style.paddingTop) || 0;
        frames.push({row, el, x: b.x + (el.clientLeft + pl) * sx, y: b.y + (el.clientTop + pt) * sy, sx, sy,
          w: el.clientWidth - pl - (parseFloat(style.paddingRight) || 0), h: el.clientHeight - pt - (parseFloat(style.paddingBottom) || 0)});
      }
      if (tag !== 'object') return;
    }
    if (NOKIDS.has(tag)) return;
    // Its box is seen, and what is in it is not. What stands in a line, or has
    // no box, cannot hide it.
    if ((kind & (F.inline | F.atomic)) !== F.inline && style.contentVisibility === 'hidden') return;
    if (tag === 'select' && !(el.multiple || el.size > 1)) return;
    const flex = (kind & FLEX) !== 0;
    if (html && !shadow && !custom && (!hostable || el[S.texty]) && tag !== 'slot' && tag !== 'details' && !firstElement(el)) {
      onlyText(el, frame.depth + 1, inh & F.pre);
      return;
    }
    const child = {list: null, i: 0, next: null, row, depth: frame.depth + 1, inh, cursor, space: false, flex, boxes, clip: undefined, el, lines: undefined, skipped: shows(tag, kind) ? false : undefined, html: html || tag === 'svg:foreignObject'};
    if (html && tag === 'details' && !el.open) {
      // Only the summary of closed details is rendered; what is closed is told
      // by aria-expanded, so it is not walked.
      let s = null;
      for (let c = firstChild(el); c; c = nextSibling(c)) if (nodeType(c) === 1 && localName(c) === 'summary') { s = c; break; }
      child.list = s ? [s] : [];
    } else if (shadow) {
      child.next = firstChild(shadow);
    } else if (html && tag === 'slot') {
      const assigned = el.assignedNodes();
      if (assigned.length) child.list = assigned;
      else child.next = firstChild(el);
    } else {
      child.next = firstChild(el);
      if (hostable && (custom || !rendersOwn(el, child))) {
        if (r === none && display !== 'contents') r = box(el);
        if (r.width > 0 && r.height > 0) possibleHost(el, custom, r, style);
      }
    }
    if (child.next || child.list) stack.push(child);
  };

  // Whether what is displayed within an element also has a box. What is in a
  // canvas has none, nor what is in a column of a table; of the rest of a kind
  // that is not listed nothing is said.
  const SHOWS = new Set([...HOSTABLE, 'ul', 'ol', 'li', 'dl', 'dt', 'dd', 'table', 'thead', 'tbody', 'tfoot', 'tr', 'td', 'th', 'caption', 'form', 'fieldset', 'legend',
    'label', 'a', 'button', 'b', 'i', 'em', 'strong', 'small', 'figure', 'figcaption', 'address', 'dialog', 'search', 'menu', 'html']);
  const shows = (tag, kind) => (kind & NOBOX) === 0 && SHOWS.has(tag);

  // Whether a picture shows the area's map.
  const pictured = (area) => {
    const map = area.closest('map');
    return !!map && hasAttr(map, 'name') && !!area.getRootNode().querySelector('img[usemap="#' + CSS.escape(attr(map, 'name')) + '"]');
  };

  // Whether an element's own children are rendered: those of the host of a
  // shadow root are not, unless slotted.
  const rendersOwn = (el, child) => {
    if (!child.next || el[S.texty]) return !!child.next;
    let text = null;
    for (let c = child.next; c; c = nextSibling(c)) {
      const t = nodeType(c);
      if (t === 1) {
        // What is not in the flat tree has no style at all.
        const d = styleOf(c).display;
        if (d !== '' && d !== 'none') return true;
      } else if (t === 3 && !text && /\S/.test(nodeValue(c))) text = c;
    }
    if (!text) return false;
    range ||= new Range();
    range.selectNode(text);
    if (!range.getClientRects().length) return false;
    el[S.texty] = true;
    return true;
  };
  let range = null;

  // An element that may have a closed shadow root, which a script cannot see:
  // a custom element, or a box whose own children are not rendered.
  const possibleHost = (el, custom, r, style) => {
    const size = Math.round(r.width) + 'x' + Math.round(r.height);
    if (S.plain.get(el) === size) return;
    const auto = custom || style.getPropertyValue('background-image') === 'none';
    (auto ? hosts : weakHosts).push([el, size]);
  };

  const hiddenInput = (el, frame) => {
    const type = el.type;
    if (type !== 'file' && type !== 'checkbox' && type !== 'radio') return;
    if (rows.length >= opts.rows) return;
    let flags = F.hidden | (frame.inh & F.inert);
    if (matches(el, ':disabled')) flags |= F.disabled;
    const space = frame.space;
    frame.space = false;
    emit(el, 'input', frame, flags, true, none, attrNames(el));
    frame.space = space;
  };

  walk();
  if (truncated) left = Math.max(1, doc.byTag('*').length - rows.reduce((n, e) => n + (e && nodeType(e) === 1 ? 1 : 0), 0));

  // What relations point to. A target that is not rendered still gives its
  // text when it is named directly.
  let rowOf = null;
  const find = (el) => {
    if (!rowOf) { rowOf = new Map(); for (let i = 0; i < rows.length; i++) rowOf.set(rows[i], i); }
    return rowOf.get(el);
  };
  let extra = 0;
  const adopt = (el) => {
    const at = find(el);
    if (at !== undefined) return at;
    const first = rows.length;
    const visit = (n, parent, depth) => {
      if (extra > 2000 || depth > 60) return;
      const t = nodeType(n);
      if (t === 3) {
        const s = nodeValue(n).replace(/[ \t\n\r\f]+/g, ' ');
        if (!s) return;
        extra++;
        rows.push(n);
        put(0);
        put(depth);
        texts.add(clean(s, opts.text));
      } else if (t === 1) {
        const tag = tagOf(n, false);
        if (SKIP.has(tag)) return;
        extra++;
        const st = getComputedStyle(n);
        let flags = F.refOnly | F.hidden;
        if (st.display === 'inline' || st.display.startsWith('inline-') || (st.display === 'none' && /^(span|b|i|em|strong|a|code|small|label|img|svg:.*)$/.test(tag))) flags |= F.inline;
        const row = emit(n, tag, {depth, space: false}, flags, false, none, attrNames(n));
        rowOf.set(n, row);
        const sr = S.closed.get(n) || shadowRoot(n);
        for (let c = firstChild(sr || n); c; c = nextSibling(c)) visit(c, row, depth + 1);
      }
    };
    visit(el, -1, 0);
    return first < rows.length ? first : undefined;
  };
  for (let i = 0; i < refs.length; i++) {
    const [kind, row, targets] = refs[i];
    const list = [];
    for (const target of targets) { const at = adopt(target); if (at !== undefined) list.push(at); }
    if (list.length) relations.push(kind + ',' + row + ',' + list.join(','));
  }
  for (const [row, target] of labels) {
    const at = find(target);
    if (at !== undefined) relations.push('l,' + row + ',' + at);
  }

  // Where the focus is, through shadow roots.
  let focus = doc.get('activeElement');
  for (let i = 0; focus && i < 100; i++) {
    const sr = S.closed.get(focus) || shadowRoot(focus);
    const inner = sr && sr.activeElement;
    if (!inner) break;
    focus = inner;
  }
  let focusRow = -1;
  if (focus && focus !== doc.get('body') && focus !== root) {
    const at = find(focus);
    focusRow = at === undefined ? -1 : at;
  }

  const ask = hosts.concat(weakHosts);
  if (ask.length > opts.hosts) { hostsLeft = ask.length - opts.hosts; ask.length = opts.hosts; }
  for (const [el, size] of ask) S.plain.set(el, size);
  const scroll = doc.get('scrollingElement') || root;
  const title = doc.get('title');
  const links = relations.join(';');
  const whole = !parts.some((n) => n) && used + texts.size + attrs.size + links.length <= 2 * PART;
  if (!whole) {
    if (used) part(0, packed());
    if (texts.size) part(1, texts.rest());
    if (attrs.size) part(2, attrs.rest());
    if (links) part(3, links);
  }
  const all = kept.flat();
  if (all.length) {
    // As many walks as may be under way at a time.
    if (S.kept.size >= 8) S.kept.delete(S.kept.keys().next().value);
    S.kept.set(S.walk, {all, left: all.length});
  }
  const meta = {
    parts: whole ? null : parts, kept: kept.map((list) => list.length),
    token: S.token, walk: S.walk, url: location.href, title: clean(title, 500), ref: S.ref,
    ready: doc.get('readyState'), vw, vh, sx: Math.round(goneX), sy: Math.round(goneY),
    dw: scroll ? scroll.scrollWidth : vw, dh: scroll ? scroll.scrollHeight : vh,
    tags, kinds, focus: focusRow, focused: un(D.hasFocus)(document), left, truncated, textsCut, hostsLeft, ms: Math.round(performance.now() - start),
    frames: frames.map(({row, x, y, sx, sy, w, h}) => ({row, x, y, sx, sy, w, h})),
    quirks: doc.get('compatMode') === 'BackCompat',
  };
  const strings = whole ? [packed(), texts.rest(), attrs.rest(), links].map((s) => s.toWellFormed()) : [];
  return [JSON.stringify(meta).toWellFormed(), ...strings, ...frames.map((f) => f.el), ...ask.map((h) => h[0])];
}
