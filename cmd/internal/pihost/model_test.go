package pihost_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// model is a provider of one scripted model, in the form of OpenAI's chat
// completions: it answers each request with what the script says.
type model struct {
	server *httptest.Server

	mu     sync.Mutex
	script func(chat) turn
	chats  []chat
}

// chat is the part of a request that the script and the checks read.
type chat struct {
	Messages []message `json:"messages"`
	Tools    []struct {
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"` // a string or parts
	ToolCallID string          `json:"tool_call_id"`
}

// text is the content as text; pictures are left out.
func (m message) text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(m.Content, &parts) // null for a message that only calls tools
	for _, p := range parts {
		s += p.Text
	}
	return s
}

// tools are the names that the request offered.
func (c chat) tools() []string {
	var names []string
	for _, t := range c.Tools {
		names = append(names, t.Function.Name)
	}
	return names
}

// last is the text of the newest message.
func (c chat) last() string { return c.Messages[len(c.Messages)-1].text() }

// turn is one answer: a call of a tool, or words that end the run.
type turn struct {
	tool string
	args map[string]any
	say  string
}

func call(tool string, args map[string]any) turn { return turn{tool: tool, args: args} }
func say(text string) turn                       { return turn{say: text} }

func startModel(t *testing.T) *model {
	m := &model{}
	m.server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.server.Close)
	return m
}

func (m *model) play(script func(chat) turn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script = script
}

// chat returns the newest request.
func (m *model) chat() chat {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.chats[len(m.chats)-1]
}

func (m *model) serve(w http.ResponseWriter, r *http.Request) {
	var c chat
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	m.chats = append(m.chats, c)
	answer := m.script(c)
	n := len(m.chats)
	m.mu.Unlock()
	delta, finish := map[string]any{"role": "assistant", "content": answer.say}, "stop"
	if answer.tool != "" {
		args, err := json.Marshal(answer.args)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		finish = "tool_calls"
		delta = map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{
			"index": 0, "id": fmt.Sprintf("call_%d", n), "type": "function",
			"function": map[string]any{"name": answer.tool, "arguments": string(args)},
		}}}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, choice := range []map[string]any{
		{"index": 0, "delta": delta, "finish_reason": nil},
		{"index": 0, "delta": map[string]any{}, "finish_reason": finish},
	} {
		line, err := json.Marshal(map[string]any{
			"id": fmt.Sprintf("chat_%d", n), "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": []any{choice},
		})
		if err != nil {
			return
		}
		fmt.Fprintf(w, "data: %s\n\n", line)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}
