package main

import (
	"context"

	"github.com/alecthomas/kong"
)

// CLI is the command line: flags of all commands, and the commands.
type CLI struct {
	Globals     `embed:"" group:"Connection, logs and configuration:"`
	ShowVersion versionFlag `name:"version" env:"-" help:"Print the version and end."`

	Up       UpCmd        `cmd:"" group:"Serve:" help:"Run all services and a NATS server in one process."`
	Services kong.Plugins `embed:""` // a command for each, of serviceCommands

	Demo   DemoCmd   `cmd:"" group:"Ask:" help:"Start everything in one process, stream one answer, and stop; opens no port."`
	Prompt PromptCmd `cmd:"" group:"Ask:" help:"Send a prompt and stream the answer."`

	Top     TopCmd      `cmd:"" group:"Operate:" help:"Show live replicas, queues and every expert's load."`
	Drain   DrainCmd    `cmd:"" group:"Operate:" help:"Have a replica, or all of a host, finish or hand over what it has, and end."`
	Plan    PlanCmd     `cmd:"" group:"Operate:" help:"Show a model's plan, and change what plans are to be like."`
	Brown   BrownoutCmd `cmd:"" group:"Operate:" name:"brownout" help:"Show how far a brownout of a model goes, and set that."`
	DLQ     DLQCmd      `cmd:"" group:"Operate:" name:"dlq" help:"Look after messages that services have given up: list, show, send again, drop."`
	Setup   SetupCmd    `cmd:"" group:"Operate:" help:"Make the streams and buckets that models need, and say what differs; with --keep make those again that a server loses."`
	Auth    AuthCmd     `cmd:"" group:"Operate:" help:"Credentials of every service and producer, with the rights that each needs, and TLS."`
	Probe   ProbeCmd    `cmd:"" group:"Operate:" help:"Ask a process of this machine whether it is ready, or lives."`
	Version VersionCmd  `cmd:"" group:"Operate:" help:"Print the version."`

	Inspect  InspectCmd  `cmd:"" group:"Models:" help:"Say what a model is and takes: parameters, bytes by part, KV cache, and whether this build serves it."`
	Weights  WeightsCmd  `cmd:"" group:"Models:" help:"Keep models in the JetStream object store, for hosts without their files; pack and unpack files of weights."`
	Tokenize TokenizeCmd `cmd:"" group:"Models:" help:"Turn texts into token ids, or ids into texts; JSON lines in on stdin, JSON lines out."`
	Verify   VerifyCmd   `cmd:"" group:"Models:" help:"Compare checkpoints, run through the message pipeline, with the outputs of transformers."`
	Quantise QuantiseCmd `cmd:"" group:"Models:" help:"Say what --precision q8 or q4 costs a model's weights: the error of each matrix, and bytes before and after."`
	Upcycle  UpcycleCmd  `cmd:"" group:"Models:" help:"Make a Mixture-of-Experts model of a dense GPT-2, BERT or BERT2BERT model."`

	Bench          BenchCmd          `cmd:"" group:"Measure:" help:"Measure what messages cost: the pipeline beside the same layers by direct calls."`
	Arena          ArenaCmd          `cmd:"" group:"Measure:" help:"Compare the control loop's policies on one trace, and write a report."`
	Policy         PolicyCmd         `cmd:"" group:"Measure:" help:"Make one scaling or placement decision from a state in JSON, without a server."`
	Record         RecordCmd         `cmd:"" group:"Measure:" help:"Write what a model's gates see and choose on texts, to train predictors and to simulate."`
	SPS            SPSCmd            `cmd:"" group:"Measure:" name:"sps" help:"Build stores of past prompts that foretell experts of similar ones, ask them, and measure what they foretell."`
	Profile        ProfileCmd        `cmd:"" group:"Measure:" help:"Measure what an expert takes with the processors that so much memory of a serverless platform has."`
	Bayes          BayesCmd          `cmd:"" group:"Measure:" help:"Count which experts rows chose, to foretell those of later rows, and measure what that foretells."`
	Tune           TuneCmd           `cmd:"" group:"Measure:" help:"Tune a table of chosen experts by what the deployments that are planned by it cost."`
	Maps           MapsCmd           `cmd:"" group:"Measure:" help:"Build expert maps from recordings, and look after files of them."`
	Distill        DistillCmd        `cmd:"" group:"Measure:" help:"Make united experts, which stand in for several of a model's experts in a brownout."`
	Rerun          RerunCmd          `cmd:"" group:"Measure:" help:"Compute a logged request again, alone, and say whether its tokens are those of the log."`
	Eval           EvalCmd           `cmd:"" group:"Measure:" help:"Measure what brownouts cost answers, on held-out texts."`
	TrainPredictor TrainPredictorCmd `cmd:"" group:"Measure:" name:"train-predictor" help:"Train predictors of expert loads, and show how right they are."`
}

// program is the command line of this binary.
var program = Program{
	Name: "switchyard",
	About: "Serves Mixture-of-Experts language models as a message pipeline over NATS JetStream.\n\n" +
		"Each flag can also be set as SWITCHYARD_<FLAG>, or in a YAML file named by --config.",
	New: func() (grammar any, globals *Globals, more []any) {
		c := &CLI{Services: serviceCommands()}
		return c, &c.Globals, c.Services
	},
}

// run runs the command line and returns the exit code.
func run(args []string, std stdio) int { return program.run(args, std) }

// runUntil runs the command line; the end of ctx is what a signal is.
func runUntil(ctx context.Context, args []string, std stdio) int {
	return program.runUntil(ctx, args, std)
}

func runWaiting(ctx context.Context, args []string, std stdio, w waits) int {
	return program.runWaiting(ctx, args, std, w)
}
