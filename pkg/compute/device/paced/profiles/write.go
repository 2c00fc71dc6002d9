package profiles

import (
	"bytes"
	"fmt"

	"gopkg.in/yaml.v3"
)

// YAML returns the profile as a file has it; Read reads it back.
func (p *Profile) YAML() ([]byte, error) {
	top := &yaml.Node{Kind: yaml.MappingNode}
	add(top, "device", text(p.Device))
	add(top, "experts", text(p.Experts))
	for _, f := range p.fields() {
		n, format := f.of(p), "%.6e"
		if f.whole {
			format = "%.0f" // a byte less, and the memory does not hold what it is counted for
		}
		one := &yaml.Node{Kind: yaml.MappingNode}
		add(one, "value", &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprintf(format, n.Value)})
		add(one, "source", text(n.Source))
		add(top, f.key, one)
	}
	if p.Curve != nil {
		add(top, "curve", p.Curve.yaml())
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(top); err != nil {
		return nil, fmt.Errorf("encoding the profile: %w", err)
	}
	return out.Bytes(), nil
}

func add(to *yaml.Node, key string, value *yaml.Node) {
	to.Content = append(to.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
}

func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }
