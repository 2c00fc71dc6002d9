package policy

import (
	"fmt"
	"io"
	"math"

	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/policy/registry"
)

// SplitName is the one policy of splitting a layer's rows.
const SplitName = "brownout"

// Divided is what is printed of a split. An expert without rows is nowhere in it.
type Divided struct {
	Own      []int          `json:"own"`    // S1
	Lone     []int          `json:"lone"`   // in S2, but alone of their group: they run themselves
	United   []UnitedExpert `json:"united"` // accesses of united experts
	Accesses int            `json:"accesses"`
}

// UnitedExpert stands in for experts.
type UnitedExpert struct {
	Group   int   `json:"group"`
	Experts []int `json:"experts"`
}

// Split decides which experts of a layer keep their rows.
func Split(name string, in io.Reader) (*Divided, error) {
	if name != SplitName {
		return nil, fmt.Errorf("--name: %w: %q splits nothing; there is %s", registry.ErrUnknown, name, SplitName)
	}
	v, err := read(in)
	if err != nil {
		return nil, err
	}
	r := &reader{}
	r.object(v, "way", "threshold_millionths", "counts")
	s := brownout.Settings{Strategy: brownout.Partial, Way: r.count(v, "way", true), Threshold: r.count(v, "threshold_millionths", true)}
	counts := r.counts(v, "counts")
	if r.err != nil {
		return nil, r.err
	}
	var p brownout.Splitter
	d, err := p.Split(s, brownout.Rows{Count: counts})
	if err != nil {
		return nil, r.checked(err)
	}
	return divided(d), nil
}

func divided(d *brownout.Decision) *Divided {
	out := &Divided{Own: []int{}, Lone: []int{}, United: []UnitedExpert{}, Accesses: d.After}
	for e, f := range d.Fate {
		switch f {
		case brownout.Own:
			out.Own = append(out.Own, e)
		case brownout.Lone:
			out.Lone = append(out.Lone, e)
		case brownout.United:
			g, last := d.Group(e), len(out.United)-1
			if last < 0 || out.United[last].Group != g {
				out.United, last = append(out.United, UnitedExpert{Group: g}), last+1
			}
			out.United[last].Experts = append(out.United[last].Experts, e)
		}
	}
	return out
}

// counts is a list of whole numbers.
func (r *reader) counts(v value, name string) (list []int32) {
	for _, one := range r.list(v, name, true) {
		wrapped := value{fields: []field{{name: one.path, value: one}}}
		list = append(list, int32(r.whole(wrapped, one.path, true, math.MaxInt32)))
	}
	return list
}
