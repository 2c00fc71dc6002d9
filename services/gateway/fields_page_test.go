package gateway

import (
	"fmt"
	"maps"
	"slices"
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
	writeBounds(&b)
	return b.String()
}

const boundsHead = `
## Bounds

How much a body may have, at most, before anything is made of it (` + "`TestBodiesAreMeasured`" + `). What has more gets 400 with ` + "`param`" + `. A body as a whole: ` + "`--http-max-body`" + `,
%d fields and elements of lists, names of fields of %d bytes, %d deep. Values that are not here have these bounds alone.

| at most | of |
|---|---|
`

// writeBounds writes the bounds of all routes, those that are equal together.
func writeBounds(b *strings.Builder) {
	fmt.Fprintf(b, boundsHead, fields.MostValues, fields.MostName, fields.MostDepth)
	of := map[string][]string{}
	for _, r := range routes {
		for _, f := range r.Bounds {
			for _, bound := range []struct {
				most int
				what string
			}{{f.MostBytes, "bytes"}, {f.Most, "elements or fields"}, {f.MostNumbers, "numbers"}} {
				what, name := fmt.Sprintf("%6d %s", bound.most, bound.what), "`"+f.Path+"`"
				if bound.most > 0 && !slices.Contains(of[what], name) {
					of[what] = append(of[what], name)
				}
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(of)) {
		slices.Sort(of[what])
		fmt.Fprintf(b, "| %s | %s |\n", strings.TrimSpace(what), strings.Join(of[what], ", "))
	}
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
