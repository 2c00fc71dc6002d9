package anthropic

import (
	"slices"
	"time"
)

// Names returns what this API calls fields that the services name otherwise.
func Names() map[string]string {
	return map[string]string{"stop": "stop_sequences", "grammar": "output_config.format", "input_ids": "messages"}
}

// Model is a model as this API's clients list it.
type Model struct {
	Type    string    `json:"type"`
	ID      string    `json:"id"`
	Name    string    `json:"display_name"`
	Created time.Time `json:"created_at"`
}

// NewModel returns a model that has been served since created, in seconds since 1970.
func NewModel(name string, created int64) Model {
	return Model{"model", name, name, time.Unix(created, 0).UTC()}
}

// Page is a part of a list of models.
type Page struct {
	Data  []Model `json:"data"`
	More  bool    `json:"has_more"`
	First *string `json:"first_id"`
	Last  *string `json:"last_id"`
}

// PageOf returns at most so many models behind the one that after names, or before the one that before
// names; where both are empty, from the first one on.
func PageOf(all []Model, most int, after, before string) Page {
	p := Page{Data: []Model{}}
	named := func(name string) int { return slices.IndexFunc(all, func(m Model) bool { return m.ID == name }) }
	switch {
	case before != "":
		all = all[:max(0, named(before))]
		p.Data = append(p.Data, all[max(0, len(all)-most):]...)
	default:
		all = all[named(after)+1:]
		p.Data = append(p.Data, all[:min(most, len(all))]...)
	}
	p.More = len(p.Data) < len(all)
	if n := len(p.Data); n > 0 {
		p.First, p.Last = &p.Data[0].ID, &p.Data[n-1].ID
	}
	return p
}
