package arena

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed remoe.html
var remoeText string

var remoePage = template.Must(template.New("remoe").Funcs(template.FuncMap{
	"percent": func(v float64) string { return fmt.Sprintf("%+.1f %%", 100*v) },
}).Parse(remoeText))

// writePage writes the report as one page that needs nothing else.
func (r *RemoeReport) writePage(w io.Writer) error {
	var drawn []figure
	for i := range r.Figures {
		one, err := r.Figures[i].draw()
		if err != nil {
			return err
		}
		drawn = append(drawn, one)
	}
	return remoePage.Execute(w, struct {
		*RemoeReport
		Drawn []figure
	}{r, drawn})
}
