package fields

import (
	"fmt"
	"strings"
)

const pageHead = `# Fields of requests

What [the gateway](gateway.md) does with each field of a body. This page is made of the table in ` + "`services/gateway/fields`" + `, by which bodies are read
(` + "`go test ./services/gateway -run TestFieldsPage -rewrite`" + `). A field that is **done** has an effect (` + "`TestDone`" + ` shows two values of each). A **hint** may be left: no answer
depends on it. What is **refused** would change an answer and cannot be done: it gets 400 with ` + "`param`" + `, unless its value asks for nothing (` + "`null`, `false`, 0" + `, what is empty, or the values behind
it). So does a field that is not here. Where fields inside of another one are not listed, readers know them.

`

// Page is the table as a page of Markdown.
func Page() string {
	var b strings.Builder
	b.WriteString(pageHead)
	for i, r := range Routes() {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "## %s\n\n| | fields | why |\n|---|---|---|\n", r.Path)
		fmt.Fprintf(&b, "| done | %s | |\n", names(r.Fields, func(f Field) bool { return f.Fate == Done }))
		for _, fate := range []Fate{Hint, Refused} {
			r.write(&b, fate)
		}
	}
	return b.String()
}

// write writes the fields of a fate, those of one reason together.
func (r *Route) write(b *strings.Builder, fate Fate) {
	written := map[string]bool{}
	for _, f := range r.Fields {
		if f.Fate != fate || written[f.Why] {
			continue
		}
		written[f.Why] = true
		same := func(o Field) bool { return o.Fate == fate && o.Why == f.Why }
		fmt.Fprintf(b, "| %s | %s | %s |\n", []string{"done", "hint", "refused"}[fate], names(r.Fields, same), f.Why)
	}
}

func names(fields []Field, which func(Field) bool) string {
	var out []string
	for _, f := range fields {
		if !which(f) {
			continue
		}
		name := "`" + f.Path + "`"
		if len(f.Nothing) > 0 {
			name += " (but `" + strings.Join(f.Nothing, "`, `") + "`)"
		}
		out = append(out, name)
	}
	return strings.Join(out, ", ")
}
