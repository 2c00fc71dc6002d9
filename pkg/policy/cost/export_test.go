package cost

// ReadMeasured reads testdata for tests that know profiles.
var ReadMeasured = read
