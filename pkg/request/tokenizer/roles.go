package tokenizer

import (
	"fmt"
	"slices"
	"strings"
)

// roles are those that chats have everywhere.
var roles = []string{"system", "developer", "user", "assistant", "tool"}

// CheckRoles refuses roles that are neither usual nor named by the template.
// Most templates write whatever role they get, which the model never saw.
func (t *Template) CheckRoles(messages []Message) error {
	for i, m := range messages {
		if slices.Contains(roles, m.Role) || m.Role != "" && t.names(m.Role) {
			continue
		}
		return fmt.Errorf("messages[%d] has role %q; use one of %s, or another one that the model's chat template names",
			i, m.Role, strings.Join(roles, ", "))
	}
	return nil
}

// names says whether a word stands in the template's source as a text of its own.
func (t *Template) names(word string) bool {
	return strings.Contains(t.source, "'"+word+"'") || strings.Contains(t.source, `"`+word+`"`)
}
