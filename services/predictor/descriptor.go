package predictor

import (
	"fmt"
	"strconv"

	"github.com/switchyard/switchyard/pkg/policy/expertmap"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
)

// Descriptor returns the service as a process runs it.
func Descriptor() service.Descriptor {
	return service.Descriptor{
		Service: catalog.Predictor, Flags: service.FlagsOf((*Flags).Config),
		Loads: service.Loads{Flags: true, Unheard: "predictions go nowhere: give --kafka HOST:PORT, as the scaler has it"},
		New:   service.NewOf(New), Check: service.CheckOf[Config],
	}
}

// Flags are the predictor's own.
type Flags struct {
	Distance int    `default:"1" help:"How many layers ahead the predictor tells experts' loads." placeholder:"N" advanced:""`
	Weights  string `help:"Predictor's weights, made by train-predictor for the same model; without it the demo model's are built in, and other models' own gates are reused." placeholder:"FILE" advanced:""`
	Maps     string `help:"Expert maps that the predictor keeps of each tenant, such as 1000; with them it tells hosts which experts they will need (--offload fmoe), --distance layers ahead, and needs --rows-to-predictor all. Without it no host is told anything." placeholder:"N" advanced:""`
	MapsFile string `help:"Snapshot of expert maps (switchyard maps) that the predictor begins with, if it is there, and writes every minute and at its end; whose maps switchyard maps forget erases there, the predictor forgets too. It is prompt text. Each predictor needs one of its own." placeholder:"FILE" advanced:""`
	Prefill  string `name:"prefill-maps" default:"mean" enum:"mean,last,rows" help:"Expert maps of a prompt's rows in a step: their mean, the last row's, or one a row." placeholder:"KIND" advanced:""`
	Beside   string `name:"maps-embedding" default:"rows" enum:"rows,pair" help:"What stands beside an expert map: the row's embedding (rows), or that and a quarter of the one before it (pair), which tells repeated tokens apart." placeholder:"KIND" advanced:""`
	Chances  string `name:"maps-chances" default:"maps" enum:"maps,learned" help:"What hosts are told of generated rows: what the most similar expert map says (maps), or chances that are learned of maps, gates, tokens and the rows before (learned), for --offload fmoe+." placeholder:"KIND" advanced:""`
	Replace  string `name:"maps-replace" default:"redundant" enum:"redundant,fifo,k-centre,least-useful,skip-redundant" help:"Which expert map goes for a new one, as in switchyard maps build." placeholder:"RULE" advanced:""`
	Shared   bool   `name:"shared-maps" help:"Let tenants' rows find the expert maps of all tenants. What is in memory then tells how others' prompts are like one's own." advanced:""`
	MaxRate  int    `default:"200" help:"Messages with rows that the predictor takes in a second at most, as a share tells as much; 0 is all." placeholder:"N" advanced:""`
}

// Config returns what the flags say.
func (f *Flags) Config(service.Process) (c Config, err error) {
	c = Config{Distance: f.Distance, Weights: f.Weights, MaxRate: f.MaxRate}
	c.Maps = Maps{Prefill: f.Prefill, Embedding: f.Beside, Replace: expertmap.Replacement(f.Replace), Chances: f.Chances, Shared: f.Shared, File: f.MapsFile}
	switch {
	case f.Maps == "" && f.MapsFile != "":
		return c, fmt.Errorf("--maps-file is %q, and no maps are kept: give --maps, such as %d", f.MapsFile, expertmap.DefaultCapacity)
	case f.Maps == "":
		return c, nil
	}
	if c.Maps.Capacity, err = strconv.Atoi(f.Maps); err != nil || c.Maps.Capacity < 1 {
		return c, fmt.Errorf("--maps is %q; give a number of 1 or more, such as %d, or leave it out", f.Maps, expertmap.DefaultCapacity)
	}
	return c, nil
}
