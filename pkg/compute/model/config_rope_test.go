package model

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

type settings = map[string]any

// Both spellings of rope settings say the same.
func TestRopeSettings(t *testing.T) {
	llama3 := RopeScaling{Kind: Llama3, Factor: 8, Original: 512, LowFactor: 1, HighFactor: 4}
	llama3Keys := settings{"factor": 8, "original_max_position_embeddings": 512, "low_freq_factor": 1, "high_freq_factor": 4}
	eight := []float64{1, 1, 1, 1, 2, 2, 2, 3}
	long := RopeScaling{
		Kind: LongRope, Original: 1024, ShortFactors: eight, LongFactors: eight,
		Attention: math.Sqrt(1 + math.Log(4)/math.Log(1024)), LongAttention: math.Sqrt(1 + math.Log(4)/math.Log(1024)),
	}
	longKeys := settings{"short_factor": eight, "long_factor": eight, "original_max_position_embeddings": 1024}
	with := func(base settings, more ...any) settings {
		all := settings{}
		for k, v := range base {
			all[k] = v
		}
		for i := 0; i < len(more); i += 2 {
			key, _ := more[i].(string)
			all[key] = more[i+1]
		}
		return all
	}
	for _, tt := range []struct {
		name   string
		change settings
		want   RopeSpec
	}{
		{"none", settings{}, RopeSpec{Kind: HalfSplit, Dim: 16, Theta: 1e6, Scaling: RopeScaling{}}},
		{"older llama3", settings{"rope_scaling": with(llama3Keys, "type", "llama3")}, RopeSpec{Kind: HalfSplit, Dim: 16, Theta: 1e6, Scaling: llama3}},
		{"newer llama3", settings{"rope_theta": "DELETE", "rope_parameters": with(llama3Keys, "rope_type", "llama3", "rope_theta", 5e5)}, RopeSpec{Kind: HalfSplit, Dim: 16, Theta: 5e5, Scaling: llama3}},
		{"longrope", settings{"rope_scaling": with(longKeys, "type", "longrope")}, RopeSpec{Kind: HalfSplit, Dim: 16, Theta: 1e6, Scaling: long}},
		{"its older name", settings{"rope_scaling": with(longKeys, "type", "su")}, RopeSpec{Kind: HalfSplit, Dim: 16, Theta: 1e6, Scaling: long}},
		{"original beside", settings{
			"original_max_position_embeddings": 1024,
			"rope_scaling":                     settings{"type": "longrope", "short_factor": eight, "long_factor": eight},
		}, RopeSpec{Kind: HalfSplit, Dim: 16, Theta: 1e6, Scaling: long}},
		{"partial", settings{"rope_parameters": settings{"rope_type": "default", "partial_rotary_factor": 0.5}}, RopeSpec{Kind: HalfSplit, Dim: 8, Theta: 1e6, Scaling: RopeScaling{}}},
		{"partial outside", settings{"partial_rotary_factor": 0.5}, RopeSpec{Kind: HalfSplit, Dim: 8, Theta: 1e6, Scaling: RopeScaling{}}},
		{"partial in both counts once", settings{
			"partial_rotary_factor": 0.5,
			"rope_parameters":       settings{"rope_type": "default", "partial_rotary_factor": 0.5},
		}, RopeSpec{Kind: HalfSplit, Dim: 8, Theta: 1e6, Scaling: RopeScaling{}}},
		{"partial inside wins", settings{
			"partial_rotary_factor": 0.5,
			"rope_parameters":       settings{"rope_type": "default", "partial_rotary_factor": 1},
		}, RopeSpec{Kind: HalfSplit, Dim: 16, Theta: 1e6, Scaling: RopeScaling{}}},
		{"beside empty", settings{
			"rope_parameters": with(llama3Keys, "rope_type", "llama3"), "rope_scaling": settings{},
		}, RopeSpec{Kind: HalfSplit, Dim: 16, Theta: 1e6, Scaling: llama3}},
		{"beside default", settings{
			"rope_parameters": with(llama3Keys, "rope_type", "llama3"), "rope_scaling": settings{"type": "default"},
		}, RopeSpec{Kind: HalfSplit, Dim: 16, Theta: 1e6, Scaling: llama3}},
		{"default beside some", settings{
			"rope_parameters": settings{"rope_type": "default"}, "rope_scaling": with(llama3Keys, "type", "llama3"),
		}, RopeSpec{Kind: HalfSplit, Dim: 16, Theta: 1e6, Scaling: llama3}},
		{"the same in both", settings{
			"rope_parameters": with(llama3Keys, "rope_type", "llama3"), "rope_scaling": with(llama3Keys, "type", "llama3"),
		}, RopeSpec{Kind: HalfSplit, Dim: 16, Theta: 1e6, Scaling: llama3}},
		{"by type of layer", settings{"rope_parameters": settings{
			"full_attention":    settings{"rope_type": "default", "rope_theta": 7e4},
			"sliding_attention": settings{"rope_type": "default", "rope_theta": 1e3},
		}}, RopeSpec{Kind: HalfSplit, Dim: 16, Theta: 7e4, Scaling: RopeScaling{}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := specOf(t, "mixtral", tt.change)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Layer[0].Mixer.Rope; !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestRopeRefusals(t *testing.T) {
	for _, tt := range []struct {
		scaling settings
		want    string
	}{
		{settings{"rope_type": "linear", "factor": 2}, "rope_type = linear"},
		{settings{"rope_type": "dynamic", "factor": 2}, "rope_type = dynamic"},
		{settings{"type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1}, "high_freq_factor 1 is below"},
		{settings{"type": "llama3", "low_freq_factor": 4, "high_freq_factor": 1}, "factor = 0"},
		{settings{"type": "longrope", "short_factor": []int{1}, "long_factor": []int{1}}, "short_factor has 1 entries, but there are 8"},
		{settings{"type": "longrope", "short_factor": []int{1, 1, 1, 1, 1, 1, 1, 0}}, "short_factor holds 0"},
		{settings{"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "surprise": 1}, "rope_scaling: surprise = 1"},
		{settings{"partial_rotary_factor": 0.2}, "rotary embedding turns pairs"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			if _, err := specOf(t, "mixtral", settings{"rope_scaling": tt.scaling}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// Two spellings that contradict each other are refused by name.
func TestRopeContradictions(t *testing.T) {
	yarn := settings{"rope_type": "yarn", "factor": 4}
	llama3 := settings{"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}
	for _, tt := range []struct {
		name       string
		parameters settings
		want       string
	}{
		{"other kinds", yarn, "rope_scaling: rope_type = llama3 differs from that of rope_parameters"},
		{"by type of layer", settings{"full_attention": yarn}, "is not supported beside rope_parameters for each type of layer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := specOf(t, "mixtral", settings{"rope_parameters": tt.parameters, "rope_scaling": llama3})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}
