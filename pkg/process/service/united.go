package service

// UnitedFlags are those of services that hold united experts, or decide by what they are.
type UnitedFlags struct {
	United string `help:"Folder of united experts that switchyard distill has made of the model; all services that take it need the same. Without it none stand in for others." placeholder:"DIR"`
}
