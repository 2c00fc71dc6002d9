// Package ods decides how a model's experts are deployed as functions before a batch comes: how rows
// reach each layer's experts, in which minibatches, and with how much memory and how many replicas
// each expert is rented (BO/ODS, sections III-D and IV-A). What a plan takes and costs is
// pkg/policy/cost/scatter's; rows are foretold by pkg/policy/predict/bayes.
//
//	rows ─▶ frontier of each layer, mode and β ─▶ knapsack over layers ─▶ plan
//
// A layer's latency is that of its slowest expert. So each threshold on it leaves every expert its
// cheapest option within, and all thresholds give the layer's exact frontier of latency and cost. One point
// of each layer's frontier is chosen, the cheapest within the limit: a multiple-choice knapsack, solved by
// dominance among the points that a Lagrangian bound leaves.
//
// Exact does that over all modes. ODS is the paper's algorithm: it solves for each mode alone, takes each
// layer's cheapest mode, and while the limit is not kept gives up the mode of the slowest layer. Random,
// LambdaML and Cluster are its baselines.
//
// Where minibatches can have more sizes than Settings.Betas, a part of them is tried, and Result.Bound says
// what no plan can cost less than.
package ods
