package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// Encode returns the frame as one line of JSON, without escaping for HTML.
// Raw values inside it are checked and compacted.
func Encode(frame any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(frame); err != nil {
		return nil, fmt.Errorf("encoding a frame: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// AppendCall appends the frame of a call. args is a JSON array that the caller
// encoded; it is taken over as it is.
func AppendCall(b []byte, id uint64, call string, args []byte) []byte {
	b = append(b, `{"id":`...)
	b = strconv.AppendUint(b, id, 10)
	b = append(b, `,"call":`...)
	b = appendString(b, call)
	b = append(b, `,"args":`...)
	b = append(b, args...)
	return append(b, '}')
}

// AppendString appends s as a JSON string.
func AppendString(b []byte, s string) []byte { return appendString(b, s) }

// AppendAck appends an acknowledgement.
func AppendAck(b []byte, seq uint64) []byte { return appendSeq(b, TypeAck, seq) }

// AppendPing appends a ping, which acknowledges too.
func AppendPing(b []byte, seq uint64) []byte { return appendSeq(b, TypePing, seq) }

func appendSeq(b []byte, kind string, seq uint64) []byte {
	b = append(b, `{"type":"`...)
	b = append(b, kind...)
	b = append(b, `","ack":`...)
	b = strconv.AppendUint(b, seq, 10)
	return append(b, '}')
}
