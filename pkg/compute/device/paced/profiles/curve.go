package profiles

import (
	"fmt"

	"gopkg.in/yaml.v3"

	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// Curve is what an access was measured to take, by its rows.
type Curve struct {
	Points []cost.Point
	Source string
}

// Take has computing take this form of time. Not all profiles have what it needs.
func (p *Profile) Take(t Time) error {
	switch {
	case t != Measured:
		p.curve = nil
	case p.Curve == nil:
		return fmt.Errorf("profile %s has no curve of measured times; measure one with switchyard bench --rows --profile-out, or take the roofline", p.Name)
	default:
		c, err := cost.NewCurve(p.ExpertBytes.Value, p.Curve.Points)
		if err != nil {
			return err
		}
		p.curve = c
	}
	p.Time = t
	return nil
}

const mostPoints = 1000

// curve is a list of rows, one of seconds, and their source.
func (r reader) curve(p *Profile, n *yaml.Node) error {
	var rows, seconds []float64
	c := Curve{}
	err := r.mapping("curve", n, map[string]func(*yaml.Node) error{
		"rows": func(n *yaml.Node) (err error) {
			rows, err = r.numbers(field[Profile]{key: "rows of curve", least: 1, most: 1 << 30, whole: true}, n, mostPoints)
			return err
		},
		"seconds": func(n *yaml.Node) (err error) {
			seconds, err = r.numbers(field[Profile]{key: "seconds of curve", least: 1e-12, most: mostSeconds}, n, mostPoints)
			return err
		},
		"source": func(n *yaml.Node) (err error) { c.Source, err = r.text("the source of curve", n); return err },
	})
	if err != nil {
		return err
	}
	if len(rows) != len(seconds) {
		return r.wrong(n, fmt.Errorf("curve has %d rows and %d seconds; each point has both", len(rows), len(seconds)))
	}
	for i := range rows {
		c.Points = append(c.Points, cost.Point{Rows: int(rows[i]), Seconds: seconds[i]})
	}
	if _, err := cost.NewCurve(1, c.Points); err != nil {
		return r.wrong(n, err)
	}
	p.Curve = &c
	return nil
}

func (c *Curve) yaml() *yaml.Node {
	list := func(of func(cost.Point) string) *yaml.Node {
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, p := range c.Points {
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: of(p)})
		}
		return n
	}
	top := &yaml.Node{Kind: yaml.MappingNode}
	add(top, "rows", list(func(p cost.Point) string { return fmt.Sprint(p.Rows) }))
	add(top, "seconds", list(func(p cost.Point) string { return fmt.Sprintf("%.6e", p.Seconds) }))
	add(top, "source", text(c.Source))
	return top
}
