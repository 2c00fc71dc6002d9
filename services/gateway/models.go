package gateway

import (
	"net/http"

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
	list := []shownModel{}
	for _, m := range d.Upstream.Models() {
		list = append(list, shown(m))
	}
	openai.WriteJSON(c.w, http.StatusOK, struct {
		Object string       `json:"object"`
		Data   []shownModel `json:"data"`
	}{"list", list})
	return nil
}

func (d *Door) showModel(c *call) error {
	m, err := d.Upstream.Find(c.r.Context(), c.r.PathValue("name"))
	if err != nil {
		return err
	}
	s := shown(m)
	s.ID = c.r.PathValue("name")
	openai.WriteJSON(c.w, http.StatusOK, s)
	return nil
}
