package upcycle

import (
	"encoding/json"
	"fmt"
	"strings"
)

// object is a JSON object whose values stay as they were written.
type object map[string]json.RawMessage

func parseObject(what string, data []byte) (object, error) {
	var o object
	if len(data) == 0 {
		return nil, fmt.Errorf("%s is missing or empty", what)
	}
	err := json.Unmarshal(data, &o)
	switch {
	case err != nil && !json.Valid(data):
		return nil, fmt.Errorf("%s: reading JSON: %w", what, err)
	case err != nil || o == nil: // a list, a number, null
		return nil, fmt.Errorf("%s is no JSON object", what)
	}
	return o, nil
}

// modelType is empty where the config has none.
func (o object) modelType() (s string) {
	_ = json.Unmarshal(o["model_type"], &s) // what is no string is none
	return s
}

// set is called with strings, numbers, booleans and lists of them, which encode.
func (o object) set(key string, value any) {
	o[key], _ = json.Marshal(value)
}

// tied reports whether the head is the embedding, as these architectures take
// it to be unless the config says no.
func (o object) tied() bool {
	tied := true
	_ = json.Unmarshal(o["tie_word_embeddings"], &tied)
	return tied
}

// kindOf finds the architecture of a dense config.
func kindOf(config object) (*dense, error) {
	var known []string
	for i := range kinds {
		if kinds[i].modelType == config.modelType() {
			return &kinds[i], nil
		}
		known = append(known, kinds[i].modelType)
	}
	return nil, fmt.Errorf("config.json: model_type %q is no dense model that can be upcycled; these can: %s",
		config.modelType(), strings.Join(known, ", "))
}

// readConfig says which architecture a config is of, what it will be with
// experts, and whether its head is the embedding.
func readConfig(data []byte, s Settings) (d *dense, moe []byte, tied bool, err error) {
	config, err := parseObject("config.json", data)
	if err != nil {
		return nil, nil, false, err
	}
	if d, err = kindOf(config); err != nil {
		return nil, nil, false, err
	}
	tied = config.tied()
	for _, part := range d.parts {
		if tied, err = addPart(config, d, part, s); err != nil {
			return nil, nil, false, err
		}
	}
	if len(d.parts) == 0 {
		addExperts(config, s)
	}
	config.set("model_type", d.moeType)
	config.set("architectures", []string{d.moeArchitecture})
	moe, err = json.MarshalIndent(config, "", "  ")
	return d, append(moe, '\n'), tied, err
}

// addPart gives experts to one of several models in a config.
func addPart(config object, d *dense, part string, s Settings) (tied bool, err error) {
	sub, err := parseObject("config.json: "+part, config[part])
	if err != nil {
		return false, err
	}
	if sub.modelType() != d.partType {
		return false, fmt.Errorf("config.json: the %s's model_type is %q; only %s can be upcycled here", part, sub.modelType(), d.partType)
	}
	addExperts(sub, s)
	sub.set("model_type", d.partMoE)
	config[part], err = json.Marshal(sub)
	return sub.tied(), err
}

func addExperts(config object, s Settings) {
	config.set("num_experts", s.Experts)
	config.set("num_experts_per_tok", s.TopK)
	config.set("norm_topk_prob", true)
}
