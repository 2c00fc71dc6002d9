package main

import (
	"strings"

	"github.com/alecthomas/kong"

	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// CLI is the command line: flags of all commands, and the commands.
type CLI struct {
	cli.Globals `embed:"" group:"Connection, logs and configuration:"`
	ShowVersion cli.VersionFlag `name:"version" env:"-" help:"Print the version and end."`

	Up       up.Cmd       `cmd:"" group:"Serve:" help:"Run all services and a NATS server in one process."`
	Services kong.Plugins `embed:""` // a command for each, of serviceCommands

	Demo   DemoCmd   `cmd:"" group:"Ask:" help:"Start everything in one process, stream one answer, and stop; opens no port."`
	Prompt PromptCmd `cmd:"" group:"Ask:" help:"Send a prompt and stream the answer."`

	Top     TopCmd         `cmd:"" group:"Operate:" help:"Show live replicas, queues and every expert's load."`
	Drain   DrainCmd       `cmd:"" group:"Operate:" help:"Have a replica, or all of a host, finish or hand over what it has, and end."`
	Plan    PlanCmd        `cmd:"" group:"Operate:" help:"Show a model's plan, and change what plans are to be like."`
	Brown   BrownoutCmd    `cmd:"" group:"Operate:" name:"brownout" help:"Show how far a brownout of a model goes, and set that."`
	DLQ     DLQCmd         `cmd:"" group:"Operate:" name:"dlq" help:"Look after messages that services have given up: list, show, send again, drop."`
	Setup   SetupCmd       `cmd:"" group:"Operate:" help:"Make the streams and buckets that models need, and say what differs; with --keep make those again that a server loses."`
	Auth    AuthCmd        `cmd:"" group:"Operate:" help:"Credentials of every service and producer, with the rights that each needs, and TLS."`
	Keys    KeysCmd        `cmd:"" group:"Operate:" help:"API keys of the gateways' clients: make, list, renew and revoke them."`
	Usage   UsageCmd       `cmd:"" group:"Operate:" help:"Add up gateways' access logs: requests and tokens by day, tenant and model."`
	Probe   ProbeCmd       `cmd:"" group:"Operate:" help:"Ask a process of this machine whether it is ready, or lives."`
	Version cli.VersionCmd `cmd:"" group:"Operate:" help:"Print the version."`

	Inspect  InspectCmd  `cmd:"" group:"Models:" help:"Say what a model is and takes: parameters, bytes by part, KV cache, and whether this build serves it."`
	Weights  WeightsCmd  `cmd:"" group:"Models:" help:"Keep models in the JetStream object store, for hosts without their files; pack and unpack files of weights."`
	Tokenize TokenizeCmd `cmd:"" group:"Models:" help:"Turn texts into token ids, or ids into texts; JSON lines in on stdin, JSON lines out."`

	Maps MapsCmd `cmd:"" group:"Models:" help:"Look after files of expert maps."`
}

// program is the command line of this binary.
var program = cli.Program{
	Name: "switchyard",
	About: "Serves Mixture-of-Experts language models as a message pipeline over NATS JetStream.\n\n" +
		"switchyard NAME runs what measures in switchyard-lab beside this program, for these names: " +
		strings.Join(cli.LabCommands, ", ") + ".\n\n" +
		"Each flag can also be set as SWITCHYARD_<FLAG>, or in a YAML file named by --config.",
	New: func() (grammar any, globals *cli.Globals, more []any) {
		c := &CLI{Services: serviceCommands()}
		return c, &c.Globals, c.Services
	},
}
