package plans

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/switchyard/switchyard/services/switchyard/terminal"
)

// Text returns the state for people: the settings, and each layer with its functions.
func (s *State) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "model %s: %s\n", s.Model, s.Settings.Text())
	if len(s.Layers) == 0 {
		b.WriteString("no plan is written yet\n")
	}
	fmt.Fprintf(&b, "%s\n", terminal.Clean(s.Here.Text()))
	for _, l := range s.Layers {
		fmt.Fprintf(&b, "\n%s\n", l.Text())
		for _, f := range l.Functions {
			fmt.Fprintf(&b, "  %.64s  %s  %s\n", terminal.Clean(f.ID), f.what(), terminal.Clean(f.where()))
		}
	}
	return b.String()
}

// what names the experts, and how rows reach them where the plan says so.
func (f Function) what() string {
	text := "experts " + ranges(f.Experts)
	if f.Way > 0 {
		text = fmt.Sprintf("united experts %s of way %d", ranges(f.Experts), f.Way)
	}
	if how := traveling(f.Transfer, int(f.Minibatch)); how != "" {
		text += "  " + how
	}
	switch {
	case f.Beside:
		text += fmt.Sprintf("  beside attention, of its %d MiB", f.Memory>>20)
	case f.Memory > 0:
		text += fmt.Sprintf("  rented with %d MiB", f.Memory>>20)
	}
	return text
}

// traveling says how rows reach functions; empty: nothing is said of it.
func traveling(transfer string, minibatch int) string {
	if minibatch > 0 {
		return fmt.Sprintf("%s in minibatches of %d rows", terminal.Clean(transfer), minibatch)
	}
	return terminal.Clean(transfer)
}

// where says what is wanted of which host.
func (f Function) where() string {
	var parts []string
	for _, w := range []struct {
		word  string
		hosts []string
	}{{"on", f.Hosts}, {"kept on", f.Kept}, {"cold on", f.Cold}} {
		if len(w.hosts) > 0 {
			parts = append(parts, w.word+" "+strings.Join(w.hosts, ", "))
		}
	}
	if len(parts) == 0 {
		return "cold on purpose"
	}
	return strings.Join(parts, "; ")
}

// Text returns the settings on a line.
func (s Settings) Text() string {
	if s.Error != "" {
		return "settings refused: " + terminal.Clean(s.Error)
	}
	text := fmt.Sprintf("policy %s, grouping %s, replicas %d", s.Policy, s.Grouping, s.Replicas)
	if how := traveling(s.Transfer, s.Minibatch); how != "" {
		text += ", transfer " + how
	}
	if s.Default {
		text += " (the defaults; none are set)"
	}
	return text
}

// Text returns the layer on a line, without its functions.
func (l Layer) Text() string {
	if l.Error != "" {
		return fmt.Sprintf("layer %d: %s", l.Layer, terminal.Clean(l.Error))
	}
	text := fmt.Sprintf("layer %d, version %d, %d functions", l.Layer, l.Version, len(l.Functions))
	if l.Reason != "" {
		text += ": " + terminal.Clean(l.Reason)
	}
	return text
}

// ranges writes ids in few words: 0-3,7.
func ranges(ids []uint32) string {
	var parts []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		part := fmt.Sprint(ids[i])
		if j > i {
			part += fmt.Sprintf("-%d", ids[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// printer writes texts or JSON lines.
type printer struct {
	w    io.Writer
	json bool
}

func (p printer) write(v any, text string) (err error) {
	if p.json {
		err = json.NewEncoder(p.w).Encode(v)
	} else {
		_, err = fmt.Fprint(p.w, text)
	}
	if err != nil {
		return fmt.Errorf("writing what there is: %w", err)
	}
	return nil
}

// Print writes the state, as one JSON object or for people.
func (s *State) Print(w io.Writer, asJSON bool) error { return printer{w, asJSON}.write(s, s.Text()) }

// Print writes the settings, as one JSON object or for people.
func (s Settings) Print(w io.Writer, asJSON bool) error {
	return printer{w, asJSON}.write(s, s.Text()+"\n")
}
