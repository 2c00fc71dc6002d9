// Package testplan writes plans of one layer, and what becomes of them, in the
// few letters that transcripts have room for. An expert is a digit.
package testplan

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Experts reads "013".
func Experts(text string) (experts []uint32) {
	for _, r := range text {
		experts = append(experts, uint32(r-'0'))
	}
	return experts
}

// Digits is Experts' inverse.
func Digits(experts []uint32) (text string) {
	for _, e := range experts {
		text += strconv.Itoa(int(e))
	}
	return text
}

// Parse reads a plan's functions: "01@a+b" is warm on a and b, "2@a~" cold on a,
// and "3" wanted nowhere.
func Parse(t testing.TB, layer int, version string, functions ...string) *pb.LayerPlan {
	t.Helper()
	number, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	lp := &pb.LayerPlan{Layer: uint32(layer), Version: number}
	for _, text := range functions {
		lp.Functions = append(lp.Functions, function(layer, text))
	}
	return lp
}

func function(layer int, text string) *pb.Function {
	experts, on, _ := strings.Cut(text, "@")
	f := plan.Function(layer, Experts(experts))
	for h := range strings.SplitSeq(on, "+") {
		if id, cold := strings.CutSuffix(h, "~"); cold {
			f.Placements = append(f.Placements, &pb.Placement{Host: id, Want: pb.Want_WANT_COLD})
		} else if h != "" {
			f.Placements = append(f.Placements, &pb.Placement{Host: h, Want: pb.Want_WANT_WARM})
		}
	}
	return f
}

// Routes shows the functions in use for experts 0 to 3, and the plan that is
// acknowledged.
func Routes(r *plan.Routes) (text string) {
	if r == nil {
		return "nothing"
	}
	for e := range int32(4) {
		to := r.Targets[r.Of(e)]
		text += fmt.Sprintf("%d→%s@%s ", e, Digits(to.Experts), strings.Join(to.Hosts, "+"))
	}
	return strings.TrimSuffix(text, " ") + fmt.Sprintf(", acknowledges %d", r.Version)
}
