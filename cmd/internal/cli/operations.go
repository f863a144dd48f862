package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"pi-chrome/cmd/internal/owner"
	"pi-chrome/driver/op"
)

func (a *app) operations(markdown *bool) runFunc {
	return func(_ context.Context, args []string) (output, error) {
		list, err := owner.Descriptors()
		if err != nil {
			return output{}, err
		}
		if len(args) > 1 {
			return output{}, usageError("operations", "pi-chrome operations takes one tool, but got %q too", args[1])
		}
		if len(args) == 1 {
			d, err := owner.Find(args[0])
			if err != nil {
				return output{}, err
			}
			return output{value: d, text: operationMarkdown(d)}, nil
		}
		if *markdown {
			return output{value: list, text: OperationsMarkdown(list)}, nil
		}
		return output{value: list, text: operationsText(list)}, nil
	}
}

// OperationsMarkdown is the text of docs/operations.md.
func OperationsMarkdown(list []op.Descriptor) string {
	var b strings.Builder
	b.WriteString("# Operations\n\nWritten by `pi-chrome operations --markdown`; a test compares it. ")
	b.WriteString("Each operation is a tool for a model (`chrome_…`) and a command (`pi-chrome …`). ")
	b.WriteString("`target` always means the tab; without it the session's only tab is used, and a session without one gets a new tab.\n\n")
	b.WriteString("| tool | command | profile | effect | does |\n|---|---|---|---|---|\n")
	for _, d := range list {
		fmt.Fprintf(&b, "| [`%s`](#%s) | `%s` | %s | %s | %s |\n", d.Tool, d.Tool, d.Command(), d.Profile, d.Effect, cell(d.Summary))
	}
	for _, d := range list {
		b.WriteString("\n" + operationMarkdown(d))
	}
	return b.String()
}

func operationMarkdown(d op.Descriptor) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n\n%s\n\n", d.Tool, d.Summary, strings.TrimSpace(d.Doc))
	args := argList(d)
	if args != "" {
		args = " " + args
	}
	fmt.Fprintf(&b, "`pi-chrome %s%s` · wire name `%s` · %s · deadline %s\n", d.Command(), args, d.Name, d.Effect, d.Deadline)
	if len(d.Input.Properties) > 0 {
		b.WriteString("\n| field | type | required | meaning |\n|---|---|---|---|\n")
		fieldRows(&b, d.Input, "")
	}
	for _, group := range d.OneOf {
		var alts []string
		optional := false
		for _, alt := range group {
			if alt == "" {
				optional = true
				continue
			}
			alts = append(alts, "`"+strings.ReplaceAll(alt, "+", "` with `")+"`")
		}
		word := "Exactly one of "
		if optional {
			word = "At most one of "
		}
		fmt.Fprintf(&b, "\n%s%s.\n", word, strings.Join(alts, ", "))
	}
	if len(d.Examples) > 0 {
		b.WriteString("\nExamples:\n")
		for _, e := range d.Examples {
			fmt.Fprintf(&b, "\n- %s: `%s`", e.Title, e.Shown())
		}
		b.WriteString("\n")
	}
	if len(d.Errors) > 0 {
		var codes []string
		for _, c := range d.Errors {
			codes = append(codes, "`"+string(c)+"`")
		}
		fmt.Fprintf(&b, "\nErrors: %s.\n", strings.Join(codes, ", "))
	}
	return b.String()
}

func fieldRows(b *strings.Builder, s *jsonschema.Schema, prefix string) {
	for _, name := range fieldOrder(s) {
		p := s.Properties[name]
		required := ""
		for _, r := range s.Required {
			if r == name {
				required = "yes"
			}
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s | %s |\n", prefix, name, typeName(p), required, cell(usageOf(p)))
		if p.Type == "object" && !isChoice(p) && !isSwitches(p) && prefix == "" {
			fieldRows(b, p, name+".")
		}
	}
}

func typeName(s *jsonschema.Schema) string {
	switch {
	case s.Type == "array" && s.Items != nil:
		return "list of " + typeName(s.Items)
	case isChoice(s):
		return "{by, value}"
	case len(s.Enum) > 0:
		return "enum"
	case s.Type == "":
		return "any"
	}
	return s.Type
}

// cell makes a text fit into one cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", "\\|"), "\n", " ")
}
