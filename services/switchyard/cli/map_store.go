package cli

import "github.com/switchyard/switchyard/pkg/policy/expertmap"

// MapStoreFlags say what a store of expert maps is like.
type MapStoreFlags struct {
	Capacity   int     `default:"1000" help:"Most maps of a tenant; with --shared of all tenants." placeholder:"N"`
	Distance   int     `default:"3" help:"How many layers ahead maps foretell experts; maps of the row's embedding do so for as many layers at the beginning." placeholder:"N" advanced:""`
	Replace    string  `default:"redundant" enum:"redundant,fifo,k-centre,least-useful,skip-redundant" help:"Which map goes for a new one: redundant (the most similar one), fifo, k-centre (the older of the two most similar), least-useful (the least found), skip-redundant (fifo, but a new one that is similar to one is not taken)." placeholder:"RULE"`
	Redundancy float32 `default:"0.9" help:"With skip-redundant: the similarity from which on a new map is not taken." placeholder:"RATIO"`
	Shared     bool    `help:"All tenants search one set of maps, so that one may learn of another's prompts."`
	Tenants    int     `name:"most-tenants" default:"64" help:"Most tenants that have maps." placeholder:"N"`
	Maps       string  `name:"map-format" default:"f32" enum:"f32,bf16,fp8" help:"How probabilities are held: f32, bf16 or fp8." placeholder:"TYPE"`
	Embeddings string  `name:"embedding-format" default:"f32" enum:"f32,bf16,fp8" help:"How embeddings are held: f32, bf16 or fp8." placeholder:"TYPE"`
}

// Settings returns what the flags say.
func (f MapStoreFlags) Settings() expertmap.Settings {
	return expertmap.Settings{
		Capacity: f.Capacity, Distance: f.Distance, Replace: expertmap.Replacement(f.Replace), Redundancy: f.Redundancy,
		Shared: f.Shared, Tenants: f.Tenants, Maps: expertmap.Format(f.Maps), Embeddings: expertmap.Format(f.Embeddings),
	}
}
