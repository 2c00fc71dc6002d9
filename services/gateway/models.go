package gateway

import (
	"net/http"
	"strconv"

	"github.com/switchyard/switchyard/services/gateway/anthropic"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/upstream"
)

// shownModel is a model as OpenAI's clients list it, and its context as vLLM's do.
type shownModel struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	OwnedBy     string `json:"owned_by"`
	MaxModelLen int    `json:"max_model_len"`
	Family      string `json:"family,omitempty"`
	Fingerprint string `json:"system_fingerprint"`
}

func shown(m upstream.Model) shownModel {
	return shownModel{ID: m.Name, Object: "model", Created: m.Created, OwnedBy: "switchyard", MaxModelLen: m.Context, Family: m.Family, Fingerprint: m.Fingerprint()}
}

func (d *Door) listModels(c *call) error {
	if isAnthropic(c.r) {
		return d.pageModels(c)
	}
	list := []shownModel{}
	for _, m := range d.models(c) {
		list = append(list, shown(m))
	}
	openai.WriteJSON(c.w, http.StatusOK, struct {
		Object string       `json:"object"`
		Data   []shownModel `json:"data"`
	}{"list", list})
	return nil
}

// pageModels lists models as Anthropic's clients read them.
func (d *Door) pageModels(c *call) error {
	query, most := c.r.URL.Query(), 20
	if limit := query.Get("limit"); limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > mostListed {
			return openai.Bad("limit", "limit: Input should be a whole number from 1 to %d", mostListed)
		}
		most = n
	}
	var all []anthropic.Model
	for _, m := range d.models(c) {
		all = append(all, anthropic.NewModel(m.Name, m.Created))
	}
	openai.WriteJSON(c.w, http.StatusOK, anthropic.PageOf(all, most, query.Get("after_id"), query.Get("before_id")))
	return nil
}

// mostListed is how many models a page can have.
const mostListed = 1000

func (d *Door) showModel(c *call) error {
	m, err := d.model(c.r.Context(), c, c.r.PathValue("name"))
	if err != nil {
		return err
	}
	if isAnthropic(c.r) {
		openai.WriteJSON(c.w, http.StatusOK, anthropic.NewModel(c.r.PathValue("name"), m.Created))
		return nil
	}
	s := shown(m)
	s.ID = c.r.PathValue("name")
	openai.WriteJSON(c.w, http.StatusOK, s)
	return nil
}
