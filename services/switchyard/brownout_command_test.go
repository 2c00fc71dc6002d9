package main

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// What cannot be set is refused by the flag's name before anything is dialled.
func TestBrownoutRefuses(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"brownout set":                                   "nothing to set; give --prefill, --decode or --way",
		"brownout set --prefill NaN":                     "--prefill: ",
		"brownout set --decode 1.1":                      "--decode: ",
		"brownout set --decode=-0.1":                     "from 0, where no expert keeps its rows, to 1",
		"brownout set --way 1":                           "--way is 1",
		"prompt x --brownout perhaps":                    `--brownout is "perhaps"`,
		"up --brownout partial --listen 127.0.0.1:0":     "--brownout partial needs --united",
		"up --brownout full --slo-decode 0s":             "--slo-decode is 0s",
		"up --brownout full --exempt 9":                  "--exempt names layer 9",
		"up --brownout partial --united nowhere --way 8": "nowhere has none of way 8",
		"attention --brownout full --max-loss 200%":      "--max-loss is",
		"up --brownout half":                             "half",
	} {
		got := invoke("", append([]string{"--nats", "nats://127.0.0.1:1"}, strings.Fields(args)...)...)
		if got.Code != cli.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("%s: exit %d, %s", args, got.Code, got.Err)
		}
	}
}

func TestPrintBrownout(t *testing.T) {
	d := &pb.Directive{
		Version: 12, Writer: "attention-1", Strategy: pb.Strategy_STRATEGY_PARTIAL, Way: 8, Bundle: 0xab, PrefillMillionths: 640_000, DecodeMillionths: 1_000_000,
		FloorMillionths: 500_000, Exempt: []uint32{7}, Reason: "because\x1b[2J",
	}
	for _, tc := range []struct {
		json bool
		d    *pb.Directive
		s    *pb.BrownoutSettings
		want string
	}{
		{false, nil, nil, "model demo: no controller has written a directive; attention replicas run one with --brownout partial or full\n"},
		{false, d, nil, "model demo: auto, partial, way 8, prefill 0.640, decode 1.000, floor 0.500\nversion 12 by attention-1: because?[2J\n"},
		{true, d, &pb.BrownoutSettings{Mode: pb.BrownoutMode_BROWNOUT_MODE_OFF}, `{"model":"demo","mode":"off","version":12,"strategy":"partial","way":8,"prefill":0.64,"decode":1,"floor":0.5,"floored":false,"exempt":[7],"bundle":"00000000000000ab","writer":"attention-1","reason":"because?[2J"}` + "\n"},
	} {
		var out bytes.Buffer
		if err := printBrownout(&out, "demo", tc.d, tc.s, tc.json); err != nil || out.String() != tc.want {
			t.Errorf("%q, %v, want %q", out.String(), err, tc.want)
		}
	}
}

// A way that the controller does not use is refused, with its reason.
func TestBrownoutRefusesWay(t *testing.T) {
	way := 3
	partial := &pb.Directive{Strategy: pb.Strategy_STRATEGY_PARTIAL, Way: 8, Reason: "way 3 is not used: there are none of it"}
	for name, tc := range map[string]struct {
		way  *int
		d    *pb.Directive
		want string
	}{
		"another one": {&way, partial, "--way is 3, which is not used, and is taken back with what else this command set. The controller says: way 3 is not used: there are none of it"},
		"none":        {nil, partial, ""},
		"used":        {&way, &pb.Directive{Strategy: pb.Strategy_STRATEGY_PARTIAL, Way: 3}, ""},
		"full":        {&way, &pb.Directive{Strategy: pb.Strategy_STRATEGY_FULL}, ""},
	} {
		err := (&BrownoutSetCmd{Way: tc.way}).refuse(tc.d)
		if (err == nil) != (tc.want == "") || err != nil && err.Error() != tc.want {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// What is taken back leaves what another operator has set since.
func TestBrownoutWithout(t *testing.T) {
	settings := func(mode pb.BrownoutMode, way uint32) *pb.BrownoutSettings {
		return &pb.BrownoutSettings{Mode: mode, Way: way}
	}
	const set, off, auto = pb.BrownoutMode_BROWNOUT_MODE_SET, pb.BrownoutMode_BROWNOUT_MODE_OFF, pb.BrownoutMode_BROWNOUT_MODE_AUTO
	for name, tc := range map[string]struct{ now, want *pb.BrownoutSettings }{
		"nothing since":     {settings(set, 7), settings(auto, 4)},
		"off since":         {settings(off, 7), settings(off, 4)},
		"another way since": {settings(set, 2), settings(set, 2)},
		"both since":        {settings(off, 2), settings(off, 2)},
	} {
		if got := without(tc.now, settings(set, 7), settings(auto, 4)); !proto.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
