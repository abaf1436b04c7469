"""From a log to a trained model: a run follows the recipe of its learner, stage by stage."""
