package arena

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"ms":      func(v float64) string { return fmt.Sprintf("%.2f", v) },
	"whole":   func(v float64) string { return fmt.Sprintf("%.0f", v) },
	"percent": func(v float64) string { return fmt.Sprintf("%+.2f %%", 100*v) },
}).Parse(pageText))

// writePage writes the report as one page that needs nothing else.
func (r *Report) writePage(w io.Writer) error {
	figures, err := r.figures()
	if err != nil {
		return err
	}
	return page.Execute(w, struct {
		*Report
		Figures []figure
	}{r, figures})
}
