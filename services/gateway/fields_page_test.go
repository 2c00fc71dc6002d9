package gateway

import (
	"fmt"
	"strings"

	"github.com/switchyard/switchyard/services/gateway/fields"
)

// routes are all that take a body.
var routes = []*fields.Route{
	fields.Chat, fields.Completion, fields.Responses, fields.Messages, fields.CountTokens, fields.Tokenize, fields.Detokenize,
}

const fieldsHead = `# Fields of requests

What [the gateway](gateway.md) does with each field of a body. This page is made of the table in ` + "`services/gateway/fields`" + `, by which bodies are read
(` + "`go test ./services/gateway -run TestFieldsPage -rewrite`" + `). A field that is **done** has an effect (` + "`TestDone`" + ` shows two values of each). A **hint** may be left: no answer
depends on it. What is **refused** would change an answer and cannot be done: it gets 400 with ` + "`param`" + `, unless its value asks for nothing (` + "`null`, `false`, 0" + `, what is empty, or the values behind
it; not those that are named there as refused, too). So does a field that is not here. Where fields inside of another one are not listed, readers know them.

`

// fieldsPage returns the table as a page of Markdown.
func fieldsPage() string {
	var b strings.Builder
	b.WriteString(fieldsHead)
	for i, r := range routes {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "## %s\n\n| | fields | why |\n|---|---|---|\n", r.Path)
		fmt.Fprintf(&b, "| done | %s | |\n", fieldNames(r.Fields, func(f fields.Field) bool { return f.Fate == fields.Done }))
		for _, fate := range []fields.Fate{fields.Hint, fields.Refused} {
			writeFields(&b, r, fate)
		}
	}
	return b.String()
}

// writeFields writes a route's fields of a fate, those of one reason together.
func writeFields(b *strings.Builder, r *fields.Route, fate fields.Fate) {
	written := map[string]bool{}
	for _, f := range r.Fields {
		if f.Fate != fate || written[f.Why] {
			continue
		}
		written[f.Why] = true
		same := func(o fields.Field) bool { return o.Fate == fate && o.Why == f.Why }
		fmt.Fprintf(b, "| %s | %s | %s |\n", []string{"done", "hint", "refused"}[fate], fieldNames(r.Fields, same), f.Why)
	}
}

func fieldNames(all []fields.Field, which func(fields.Field) bool) string {
	var out []string
	for _, f := range all {
		if !which(f) {
			continue
		}
		name := "`" + f.Path + "`"
		if len(f.Nothing) > 0 {
			name += " (but `" + strings.Join(f.Nothing, "`, `") + "`)"
		}
		if len(f.Something) > 0 {
			name += " (also `" + strings.Join(f.Something, "`, `") + "`)"
		}
		out = append(out, name)
	}
	return strings.Join(out, ", ")
}
