package driver

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/chromedp/cdproto/input"

	"pi-chrome/driver/op"
)

// onMac is whether the browser, which runs on the same machine, edits as on a
// Mac.
const onMac = goruntime.GOOS == "darwin"

// keyboard presses keys, and lets go of those it has pressed when something
// fails. Keys go to whatever has the focus, in whichever frame.
type keyboard struct {
	t    *Tab
	c    *Call
	w    *witness
	p    *pace
	held []input.DispatchKeyEventParams // the releases of what is pressed
	sent bool                           // a key was delivered, or may have been
	past bool                           // the fence: what was focused was there still
}

// enter passes the fence once, before the first key or text.
func (k *keyboard) enter() error {
	if k.past {
		return nil
	}
	if err := k.w.fence(k.c); err != nil {
		return err
	}
	k.past = true
	return nil
}

// down and up are the two events of a key.
func keyEvents(c chord, def keyDef, modifiers int64) (down, up input.DispatchKeyEventParams) {
	key, text := def.key, def.text
	if modifiers&modShift != 0 && def.shifted != "" {
		key, text = def.shifted, def.shifted
	}
	base := input.DispatchKeyEventParams{Modifiers: modifiers, Key: key, Code: def.code,
		WindowsVirtualKeyCode: def.vk, NativeVirtualKeyCode: def.vk}
	if def.location == 3 {
		yes := true
		base.IsKeypad = &yes
	}
	// Chrome works out the location from IsKeypad; left and right are told.
	if def.location == 1 || def.location == 2 {
		base.Location = def.location
	}
	up = base
	up.Type = input.DispatchKeyEventTypeKeyUp
	down = base
	down.Type = input.DispatchKeyEventTypeRawKeyDown
	// With a modifier other than Shift a key types nothing.
	if text != "" && modifiers&^modShift == 0 {
		down.Type, down.Text, down.UnmodifiedText = input.DispatchKeyEventTypeKeyDown, text, text
	}
	down.Commands = editCommands(c, onMac)
	return down, up
}

// dispatch sends one key event.
func (k *keyboard) dispatch(ctx context.Context, ev input.DispatchKeyEventParams) error {
	k.w.inputAt()
	return k.w.deliver(ctx, func(ctx context.Context) error {
		_, err := call(ctx, k.t.conn, input.DispatchKeyEvent, ev)
		return err
	})
}

// send dispatches the press of a key and remembers its release. When the page
// opens a dialog or goes, there is no error and going is false.
func (k *keyboard) send(ctx context.Context, down, up input.DispatchKeyEventParams) (going bool, err error) {
	if err := k.enter(); err != nil {
		return false, err
	}
	k.c.begin()
	err = k.dispatch(ctx, down)
	switch {
	case err == nil:
		k.sent = true
		k.held = append(k.held, up)
		return true, nil
	case errors.Is(err, errDialog):
		k.sent = true
		k.held = append(k.held, up)
		return false, nil
	case k.w.gone(err):
		k.sent = true
		return false, nil
	case errors.Is(err, op.ErrNotDelivered) && !k.sent:
		k.c.noEffect()
		return false, fmt.Errorf("pressing %s: %w", down.Key, err)
	}
	k.sent = true
	if !errors.Is(err, op.ErrNotDelivered) {
		k.held = append(k.held, up)
	}
	return false, fmt.Errorf("pressing %s: %w", down.Key, cleared(err))
}

// release lets go of the key pressed last.
func (k *keyboard) release(ctx context.Context) (going bool, err error) {
	up := k.held[len(k.held)-1]
	err = k.dispatch(ctx, up)
	switch {
	case err == nil:
		k.held = k.held[:len(k.held)-1]
		return true, nil
	case errors.Is(err, errDialog), k.w.gone(err):
		k.held = k.held[:len(k.held)-1]
		return false, nil
	}
	return false, fmt.Errorf("releasing %s: %w", up.Key, cleared(err))
}

// letGo releases what is still pressed, on its own bound.
func (k *keyboard) letGo(ctx context.Context) {
	for i := len(k.held) - 1; i >= 0; i-- {
		up := k.held[i]
		_ = k.t.letGo(ctx, k.w, func(ctx context.Context) error {
			_, err := call(ctx, k.t.conn, input.DispatchKeyEvent, up)
			return err
		})
	}
	k.held = nil
}

// press presses a chord: the modifiers as keys of their own, the key, and all
// of them up again in the reverse order.
func (k *keyboard) press(ctx context.Context, c chord) error {
	defer k.letGo(ctx)
	held := int64(0)
	for _, m := range modifierKeys {
		if c.modifiers&m.bit == 0 {
			continue
		}
		held |= m.bit
		down, up := keyEvents(chord{}, modifierDef(m.name), held)
		up.Modifiers = held &^ m.bit
		if going, err := k.send(ctx, down, up); err != nil || !going {
			return err
		}
	}
	hold, _ := k.p.key(0)
	if c.literal != "" {
		if err := k.insert(ctx, c.literal); err != nil {
			return err
		}
	} else {
		down, up := keyEvents(c, c.def, held)
		if bit := modifierBit(c.def.key); bit != 0 {
			down.Modifiers |= bit
		}
		if going, err := k.send(ctx, down, up); err != nil || !going {
			return err
		}
		// Once pressed, the keys are released even for a caller who has left.
		if err := sleep(ctx, hold); err != nil {
			return err
		}
	}
	for len(k.held) > 0 {
		if going, err := k.release(ctx); err != nil || !going {
			return err
		}
	}
	return nil
}

func modifierDef(name string) keyDef {
	for _, d := range namedKeys {
		if d.key == name && d.location == 1 {
			return d
		}
	}
	return keyDef{}
}

// insert enters text as an input method does: one beforeinput and one input,
// no keys.
func (k *keyboard) insert(ctx context.Context, text string) error {
	if err := k.enter(); err != nil {
		return err
	}
	k.c.begin()
	k.w.inputAt()
	err := k.w.deliver(ctx, func(ctx context.Context) error {
		_, err := call(ctx, k.t.conn, input.InsertText, input.InsertTextParams{Text: text})
		return err
	})
	switch {
	case err == nil, errors.Is(err, errDialog), k.w.gone(err):
		k.sent = true
		return nil
	case errors.Is(err, op.ErrNotDelivered) && !k.sent:
		k.c.noEffect()
		return fmt.Errorf("entering text: %w", err)
	}
	k.sent = true
	return fmt.Errorf("entering text: %w", cleared(err))
}

// typeText types text key by key with the pauses of the pace; what no key
// types is inserted, a character as a person sees it at a time. A new line is
// Enter where breaks says so, else inserted. It returns how much of the text
// was entered, in UTF-16 units; all of it was unless a dialog opened or the
// page went.
func (k *keyboard) typeText(ctx context.Context, text string, breaks bool) (typed int, err error) {
	for unit := range characters(text) {
		if k.w.over() {
			return typed, nil
		}
		d, ok := charKeys[unit]
		switch {
		case unit == "\n" && breaks:
			err = k.press(ctx, chord{def: namedKeys["enter"]})
		case unit == "\t" && breaks:
			err = k.press(ctx, chord{def: namedKeys["tab"]})
		case ok:
			c := chord{def: d}
			if unit == d.shifted && d.shifted != d.key {
				c.modifiers = modShift
			}
			err = k.press(ctx, c)
		default:
			err = k.insert(ctx, unit)
		}
		if err != nil {
			return typed, err
		}
		typed += utf16Length(unit)
		r, _ := utf8.DecodeRuneInString(unit)
		_, gap := k.p.key(r)
		if err := sleep(ctx, gap); err != nil {
			return typed, err
		}
	}
	return typed, nil
}

// utf16Length counts as pages do: in UTF-16 units.
func utf16Length(s string) int { return len(utf16.Encode([]rune(s))) }
