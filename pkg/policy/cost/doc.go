// Package cost says what serving takes on a device: seconds of computing, of links and
// of messages. The paced device, the simulator and the policies ask the same functions,
// so that no policy is judged by other times than those it decides by.
//
// The unit of computing is the access: a device reads the weights of one expert (or of
// another unit that can be computed alone) once, and multiplies all rows that came for
// it. A Timer says how long that takes:
//
//   - Roofline, from a data sheet: the larger of reading the weights and multiplying
//     the rows, and a fixed overhead (Williams et al., 2009).
//   - Curve, from measurements: seconds by rows.
//   - Printed, MoEless's §3.3: a price a row and nothing an access. Under it replicas
//     cost nothing in decode, and fewer accesses save nothing; it is here to
//     show what the paper's figures rest on.
//
// Link and Messages are what bytes and messages take; Platform is a serverless platform,
// where memory decides speed, with its Prices.
//
// How each constant is known is in the profiles that have it (pkg/compute/device/paced/profiles):
// measured, from a source that others can look up, or "assumed". Fit makes a roofline of
// measurements (an H200's: TestMeasuredProfile; this machine's: switchyard bench --rows
// --profile-out). What profiles and the simulator assume, switchyard arena --sweep varies.
//
// All times are in seconds, all sizes in bytes. The package has no clock.
package cost
