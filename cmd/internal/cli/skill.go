package cli

import (
	"context"

	"github.com/spf13/pflag"

	"pi-chrome/cmd/internal/guide"
)

func skillCommand() *command {
	return &command{
		name: "skill", group: groupSetup, summary: "Print a short guide for an agent: when to look, what refs are, what errors ask for.",
		doc: "It is a SKILL.md: save it where your agent looks for skills, or put it into its instructions. Its last line names the release that it is of. An MCP client has the same text as the prompt chrome_guide.\n\n" +
			"  mkdir -p ~/.claude/skills/pi-chrome && pi-chrome skill > ~/.claude/skills/pi-chrome/SKILL.md",
		prepare: func(_ *app, _ *pflag.FlagSet) runFunc {
			return func(_ context.Context, args []string) (output, error) {
				if err := noArgs("skill", args); err != nil {
					return output{}, err
				}
				text, err := guide.Skill()
				if err != nil {
					return output{}, err
				}
				version, err := guide.Version()
				if err != nil {
					return output{}, err
				}
				return output{value: map[string]any{"skill": text, "version": version}, text: text}, nil
			}
		},
	}
}
