// Puts the functions that choose from a list into this world: a select, or the
// listboxes, comboboxes, menus and radio groups that pages make themselves.
function () {
  const lib = globalThis.__piChromeInput;
  const {up, contains, nearest, shown, rects, refusal, call, line, frame} = lib.tools;
  const OPTION = '[role=option],[role=menuitem],[role=menuitemradio],[role=menuitemcheckbox],[role=treeitem]';
  const POPUP = '[role=listbox],[role=menu],[role=tree],[role=grid]';
  const MAX_SHOWN = 30, MAX_LOOK = 20000, BOTTOM_WAIT = 1000;
  const shadowOf = (el) => el.shadowRoot || (globalThis.__piChrome ? globalThis.__piChrome.closed.get(el) : null);
  const fold = (s) => String(s || '').replace(/\s+/g, ' ').trim();
  const visible = (el) => shown(el) && rects(el).length > 0;

  /** All elements of a tree that match, through known shadow roots. */
  const all = (root, selector) => {
    const list = [];
    let count = 0;
    const walk = (n) => {
      for (const el of n.querySelectorAll('*')) {
        if (++count > MAX_LOOK) return;
        if (el.matches(selector)) list.push(el);
        const inner = shadowOf(el);
        if (inner) walk(inner);
      }
    };
    if (root.nodeType === 1 && shadowOf(root)) walk(shadowOf(root));
    walk(root);
    return list;
  };

  const only = (list) => (list.length === 1 ? list[0] : null);

  const selectOf = (el) => {
    if (el.localName === 'select') return el;
    if (el.localName === 'option') return el.closest('select');
    if (el.localName === 'label' && el.control && el.control.localName === 'select') return el.control;
    return null;
  };

  const opens = (el) => el.matches('[role=combobox],[aria-haspopup]:not([aria-haspopup=false]),input[list]');

  /** How a choice is made with the element, and the element that stands for it. */
  const kindOf = (el) => {
    const select = selectOf(el);
    if (select) return ['select', select];
    const control = el.localName === 'label' && el.control ? el.control : el;
    if (control.matches('[role=listbox]')) return ['list', control];
    if (control.matches('[role=radiogroup]')) return ['radios', control];
    if (opens(control)) return ['popup', control];
    const option = nearest(control, '[role=option]');
    const list = option && nearest(option, '[role=listbox]');
    if (list) return ['list', list];
    const inner = only(all(control, 'select'));
    if (inner) return ['select', inner];
    const box = only(all(control, '[role=listbox]'));
    if (box) return ['list', box];
    const combo = only(all(control, '[role=combobox],[aria-haspopup=listbox]'));
    if (combo) return ['popup', combo];
    if (control.localName === 'fieldset' && control.querySelector('input[type=radio]')) return ['radios', control];
    const above = nearest(control, '[role=combobox],[aria-haspopup=listbox]');
    return above ? ['popup', above] : ['', control];
  };

  lib.choice = (el) => {
    if (!el.isConnected) return {state: 'stale'};
    const [kind, c] = kindOf(el);
    const about = {kind, tag: c.localName, requestedTag: c === el ? '' : el.localName, called: call(c)};
    if (!kind) return {state: 'no-choice', ...about};
    const no = refusal(c);
    if (no) return {state: no, ...about};
    if (!visible(c)) return {state: 'invisible', reason: 'it is not rendered', ...about};
    lib.chooser = lib.control = lib.target = c;
    lib.chooserOpened = false;
    lib.choiceKind = kind;
    about.multiple = kind === 'select' ? c.multiple : c.getAttribute('aria-multiselectable') === 'true';
    about.editable = c.localName === 'input' || c.isContentEditable || !!editor(c);
    about.open = kind !== 'popup' || options().length > 0 && c.getAttribute('aria-expanded') !== 'false';
    return {state: 'ok', ...about};
  };

  /** The field of a combobox that text can be typed into. */
  const editor = (c) => (c.localName === 'input' ? c : c.querySelector('input:not([type=hidden])'));

  const byIds = (el, name) => fold(el.getAttribute(name)).split(' ').map((id) => id && el.getRootNode().getElementById(id)).filter(Boolean);

  /** The list that belongs to what is chosen with. */
  const popup = () => {
    const c = lib.chooser;
    if (lib.choiceKind !== 'popup') return c;
    const field = editor(c);
    for (const from of [c, field]) {
      if (!from) continue;
      for (const list of [...byIds(from, 'aria-controls'), ...byIds(from, 'aria-owns')]) if (visible(list)) return list;
    }
    // None is named: one that came with the click, one beside the chooser, or
    // any where the chooser says that it is open.
    const lists = all(document, POPUP).filter((n) => visible(n) && n !== c);
    const was = lib.armed && lib.armed.seen;
    const fresh = was && lists.find((n) => !was.has(n));
    const beside = c.parentElement && lists.find((n) => contains(c.parentElement, n) && c.parentElement !== document.body);
    const said = c.getAttribute('aria-expanded') === 'true' || !was && lib.chooserOpened;
    return fresh || beside || (said && (lists.find((n) => n.matches('[role=listbox]') && !(was && was.has(n))) || lists.at(-1))) || null;
  };

  const options = () => {
    const list = popup();
    if (!list) return [];
    if (lib.choiceKind === 'radios') return all(list, 'input[type=radio],[role=radio]').filter((n) => visible(n) || (n.labels && [...n.labels].some(visible)));
    const found = all(list, OPTION).filter(visible);
    return found.length ? found : all(list, 'li').filter(visible);
  };

  const labelOf = (o) => {
    const label = o.labels && o.labels[0];
    return fold(o.getAttribute('aria-label') || (label ? label.innerText : '') || byIds(o, 'aria-labelledby').map((n) => n.textContent).join(' ') || o.innerText);
  };
  const valueOf = (o) => o.getAttribute('data-value') ?? o.getAttribute('value') ?? o.getAttribute('data-key') ?? '';
  const isChosen = (o) => (o.localName === 'input' ? o.checked : o.getAttribute('aria-selected') === 'true' || o.getAttribute('aria-checked') === 'true');

  const pickOption = (list, by, wanted, label, value) => {
    if (by === 'index') return list[wanted] || null;
    if (by === 'value') return list.find((o) => value(o) === wanted) || null;
    const want = fold(wanted);
    const free = (same) => { const found = list.filter(same); return found.find((o) => !o.matches(':disabled,[aria-disabled=true]')) || found[0]; };
    return free((o) => label(o) === want) || free((o) => label(o).toLowerCase() === want.toLowerCase()) || null;
  };

  const nativeLabel = (o) => fold(o.label || o.textContent);

  /**
   * Chooses exactly the wanted options of a select, as its own list does: one
   * input and one change, and none when it holds them already.
   * @param {any} _
   * @param {'label'|'value'|'index'} by
   * @param {(string|number)[]} wanted
   * @param {boolean} look only say whether it can be done
   */
  lib.chooseNative = (_, by, wanted, look) => {
    const c = lib.chooser;
    if (!c || !c.isConnected) return {state: 'stale'};
    const list = [...c.options];
    const allowed = list.filter((o) => !o.matches(':disabled')).slice(0, MAX_SHOWN).map((o) => line(o.label, 60));
    const chosen = new Set();
    for (const want of wanted) {
      const o = pickOption(list, by, want, nativeLabel, (x) => x.value);
      if (!o) return {state: 'none', wanted: String(want), allowed, count: list.length};
      if (o.matches(':disabled')) return {state: 'option-disabled', wanted: String(want), allowed, count: list.length};
      chosen.add(o);
    }
    const same = list.every((o) => o.selected === chosen.has(o));
    if (look || same) return {state: 'ok', changed: !same};
    if (c.getRootNode().activeElement !== c) c.focus({preventScroll: true});
    if (c.multiple) for (const o of list) o.selected = chosen.has(o);
    else c.selectedIndex = [...chosen][0].index;
    c.dispatchEvent(new Event('input', {bubbles: true, composed: true}));
    c.dispatchEvent(new Event('change', {bubbles: true}));
    return {state: 'ok', changed: true};
  };

  /** Waits until the list shows options, at most limit ms. */
  lib.awaitOptions = async (_, limit) => {
    const end = performance.now() + limit;
    for (;;) {
      const n = options().length;
      if (n > 0 || performance.now() > end) return {count: n};
      await frame();
    }
  };

  /**
   * Finds a wanted option of the list and makes it what is clicked next.
   * Options may come while the list is scrolled, so it is, where the option is
   * not there yet. The limit, in milliseconds, is of the search:
   * a list of which the end was not seen then is "unsearched", not "none".
   */
  lib.optionFor = async (_, by, wanted, limit) => {
    const end = performance.now() + limit;
    const seen = new Map();
    let box = null, at = -1, bottom = 0, out = 'none';
    for (;;) {
      const list = options();
      for (const o of list) if (seen.size < MAX_LOOK) seen.set(labelOf(o), o);
      const o = pickOption(list, by, wanted, labelOf, valueOf);
      if (o) {
        const no = refusal(o);
        lib.control = lib.target = o;
        return {state: no || 'ok', label: labelOf(o), chosen: isChosen(o)};
      }
      if (!box) {
        const p = popup();
        box = p && [p, ...all(p, '*'), ...(function* () { for (let n = up(p); n; n = up(n)) if (n.nodeType === 1) yield n; })()]
          .find((n) => n.scrollHeight > n.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(n).overflowY) && n !== document.scrollingElement);
        if (box) box.scrollTop = 0;
      } else {
        if (performance.now() > end) {
          out = 'unsearched';
          break;
        }
        if (box.scrollTop === at) {
          // Its end, unless more is on its way. The page is told that it was
          // scrolled with the next frame.
          if (bottom === 0) bottom = performance.now();
          if (performance.now() - bottom > BOTTOM_WAIT) break;
        } else {
          bottom = 0;
        }
        at = box.scrollTop;
        box.scrollTop += Math.max(20, box.clientHeight * 0.8);
      }
      if (!box) break;
      await frame();
      await frame();
    }
    return {state: out, allowed: [...seen.keys()].slice(0, MAX_SHOWN).map((s) => line(s, 60)), count: seen.size};
  };

  /** Chosen options that are not wanted, the first of which is clicked next. */
  lib.optionToDrop = (_, by, wanted) => {
    const list = options();
    const keep = new Set(wanted.map((w) => pickOption(list, by, w, labelOf, valueOf)));
    const extra = list.find((o) => isChosen(o) && !keep.has(o));
    if (!extra) return {state: 'none'};
    lib.control = lib.target = extra;
    return {state: 'ok', label: labelOf(extra)};
  };

  /** What clicks open the list: the chooser itself. */
  lib.chooserAgain = () => {
    const c = lib.chooser;
    if (!c || !c.isConnected) return {state: 'stale'};
    lib.control = lib.target = editor(c) && visible(editor(c)) ? editor(c) : c;
    lib.chooserOpened = true;
    return {state: 'ok'};
  };

  /** What is chosen now, and whether that is what was wanted. */
  lib.chosen = (_, by, wanted, labels) => {
    const c = lib.chooser;
    if (!c || !c.isConnected) return {gone: true};
    if (lib.choiceKind === 'select') {
      const list = [...c.options];
      const now = list.filter((o) => o.selected);
      const want = wanted.map((w) => pickOption(list, by, w, nativeLabel, (x) => x.value));
      return {same: now.length === new Set(want).size && want.every((o) => o && o.selected), selected: now.slice(0, 50).map((o) => ({index: o.index, value: line(o.value, 200), label: line(o.label, 200)}))};
    }
    const list = lib.choiceKind === 'popup' && c.getAttribute('aria-expanded') === 'false' ? [] : options();
    const now = list.filter(isChosen);
    const open = lib.choiceKind === 'popup' && list.length > 0;
    if (now.length > 0 || lib.choiceKind !== 'popup') {
      const want = wanted.map((w) => pickOption(list, by, w, labelOf, valueOf));
      const multiple = now.length > 1 || wanted.length > 1;
      return {same: want.every((o) => o && isChosen(o)) && (!multiple || now.length === new Set(want).size), open,
        selected: now.slice(0, 50).map((o) => ({index: list.indexOf(o), value: line(valueOf(o), 200), label: line(labelOf(o), 200)}))};
    }
    // The list is closed: what is shown in its stead tells.
    const field = editor(c);
    const text = fold((field && field.value) || (c.localName === 'input' ? '' : c.innerText) || (c.parentElement && !field ? '' : c.parentElement ? c.parentElement.innerText : ''));
    const around = fold(nearest(up(c), '*') ? nearest(up(c), '*').innerText : '');
    const has = (t, s) => t.toLowerCase().includes(fold(s).toLowerCase());
    return {same: labels.length > 0 && labels.every((l) => has(text, l) || has(around, l)), open, selected: text ? [{index: -1, value: '', label: line(text, 200)}] : []};
  };
}
