package tokenizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// configJSON is what matters here of tokenizer_config.json.
type configJSON struct {
	AddBOS *bool     `json:"add_bos_token"`
	AddEOS *bool     `json:"add_eos_token"`
	BOS    tokenJSON `json:"bos_token"`
	EOS    tokenJSON `json:"eos_token"`
	MASK   tokenJSON `json:"mask_token"`
	// Added are the added tokens by id; tokenizer.json has its own list.
	Added map[uint32]addedToken `json:"added_tokens_decoder"`
}

// tokenJSON is a token as a string, as an object with content, or null.
type tokenJSON string

func (t *tokenJSON) UnmarshalJSON(data []byte) error {
	var object struct {
		Content string `json:"content"`
	}
	var err error
	if len(data) > 0 && data[0] == '{' {
		err = json.Unmarshal(data, &object)
	} else {
		err = json.Unmarshal(data, &object.Content) // null leaves it empty
	}
	*t = tokenJSON(object.Content)
	return err
}

// readConfig reads tokenizer_config.json and decides what begins a prompt.
// Bare files have their added tokens there, too.
func (t *Tokenizer) readConfig(files Files, postProcessor json.RawMessage, bare bool) error {
	if data, ok := files("tokenizer_config.json"); ok {
		if err := json.Unmarshal(data, &t.config); err != nil {
			return fmt.Errorf("tokenizer_config.json: reading JSON: %w", err)
		}
	}
	if bare {
		if err := t.addFromConfig(); err != nil {
			return fmt.Errorf("tokenizer_config.json: %w", err)
		}
	}
	template, err := parseFrame(postProcessor)
	if err != nil {
		return fmt.Errorf("tokenizer.json: %w", err)
	}
	switch {
	case t.config.AddBOS != nil:
		err = t.frameFromConfig()
	case template != nil:
		t.prompt = *template
	default:
		if data, ok := files("config.json"); ok {
			t.prompt.before, err = bosFromModel(data)
		}
	}
	if err != nil {
		return err
	}
	return t.checkFrame()
}

// addFromConfig adds the tokens that the vocabulary does not have, in the order
// of their ids.
func (t *Tokenizer) addFromConfig() error {
	var added []addedToken
	for _, id := range slices.Sorted(maps.Keys(t.config.Added)) {
		a := t.config.Added[id]
		a.ID, a.Normalized = id, false
		if t.pieces.has(id) && t.ids[a.Content] == id {
			continue
		}
		if err := checkIDs(id, len(t.ids)); err != nil {
			return fmt.Errorf("added_tokens_decoder: %w", err)
		}
		added = append(added, a)
	}
	return t.addTokens(added, ownBytes)
}

// frameFromConfig follows add_bos_token and add_eos_token.
func (t *Tokenizer) frameFromConfig() error {
	put := func(side *[]uint32, add *bool, token tokenJSON) error {
		if add == nil || !*add {
			return nil
		}
		id, ok := t.ID(string(token))
		if !ok {
			return fmt.Errorf("tokenizer_config.json: a prompt begins or ends with token %q, which the tokenizer does not have", string(token))
		}
		*side = append(*side, id)
		return nil
	}
	if err := put(&t.prompt.before, t.config.AddBOS, t.config.BOS); err != nil {
		return err
	}
	return put(&t.prompt.after, t.config.AddEOS, t.config.EOS)
}

// bosFromModel reads bos_token_id of config.json, which may be null.
func bosFromModel(data []byte) ([]uint32, error) {
	var model struct {
		BOS *uint32 `json:"bos_token_id"`
	}
	if err := json.Unmarshal(data, &model); err != nil {
		return nil, fmt.Errorf("config.json: reading bos_token_id: %w", err)
	}
	if model.BOS == nil {
		return nil, nil
	}
	return []uint32{*model.BOS}, nil
}

// checkFrame refuses ids that the vocabulary does not have.
func (t *Tokenizer) checkFrame() error {
	for _, side := range [][]uint32{t.prompt.before, t.prompt.after} {
		for _, id := range side {
			if !t.pieces.has(id) {
				return fmt.Errorf("tokenizer.json or what stands beside it: a prompt begins or ends with token id %d, which the tokenizer does not have", id)
			}
		}
	}
	return nil
}
