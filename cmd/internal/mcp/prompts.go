package mcp

import (
	"context"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-chrome/cmd/internal/guide"
)

// instructions are what a client may give its model at the start.
const instructions = "pi-chrome works in tabs of its own in the user's Chrome. chrome_snapshot shows what can be done, each with a ref (el-3); " +
	"act by ref. An error says whether it had an effect and what to do next. In every tool target {by,value} names a tab; without it your only tab is meant. " +
	"When the session is locked, give the user the command that the error names."

func (f *face) addPrompts() {
	f.server.AddPrompt(&sdk.Prompt{
		Name: "chrome_guide", Title: "Use Chrome", Description: "how to see and act in pages with these tools",
		Arguments: []*sdk.PromptArgument{{Name: "task", Description: "what is to be done"}},
	}, func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		text, err := guide.Text()
		if err != nil {
			return nil, err
		}
		if task := strings.TrimSpace(req.Params.Arguments["task"]); task != "" {
			text += "\n\nThe task: " + task
		}
		return &sdk.GetPromptResult{Description: "how to use Chrome", Messages: []*sdk.PromptMessage{
			{Role: "user", Content: &sdk.TextContent{Text: text}},
		}}, nil
	})
}
