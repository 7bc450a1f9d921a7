#include "config/run_declaration.hpp"

namespace strata::host {

SectionDeclaration run_declaration() {
  return {
      .path = "run",
      .documentation = "The run: its length, its seed and its output.",
      .schema = {
          {.name = "name",
           .type = OptionType::word,
           .default_value = "run",
           .documentation =
               "Name of the run in messages and logs, and of its folder in runs/: no slash, no control character, "
               "no dot at its beginning."},
          {.name = "steps",
           .type = OptionType::integer,
           .default_value = 1000,
           .documentation =
               "Optimizer steps of the run, and the length of its schedules. A resumed run counts the steps "
               "before its checkpoint.",
           .minimum = 1},
          {.name = "stop_at_step",
           .type = OptionType::integer,
           .default_value = 0,
           .documentation = "The run ends after this step, and its schedules keep the length run.steps; 0 means "
                            "run.steps. --steps sets it.",
           .minimum = 0},
          {.name = "seed",
           .type = OptionType::integer,
           .default_value = 1337,
           .documentation = "Seed of initialisation, dropout and the order of the data, the same for every layout.",
           .minimum = 0},
          {.name = "output",
           .type = OptionType::word,
           .default_value = "",
           .documentation =
               "Folder for checkpoints and offload files, created if missing. Empty means runs/ and the run's name."},
          {.name = "checkpoint_every",
           .type = OptionType::integer,
           .default_value = 0,
           .documentation = "Steps between checkpoints; 0 writes one at the end only.",
           .minimum = 0},
          {.name = "keep_checkpoints",
           .type = OptionType::integer,
           .default_value = 3,
           .documentation = "How many of the newest checkpoints to keep; 0 keeps all.",
           .minimum = 0,
           .maximum = 1000000},
          {.name = "checkpoint_mode",
           .type = OptionType::word,
           .default_value = "background",
           .documentation =
               "Whether training goes on while a checkpoint is written, from a copy in host memory, or waits.",
           .choices = {"background", "foreground"}},
          {.name = "eval_every",
           .type = OptionType::integer,
           .default_value = 0,
           .documentation = "Steps between evaluations on the validation split; 0 never evaluates.",
           .minimum = 0},
          {.name = "eval_batches",
           .type = OptionType::integer,
           .default_value = 0,
           .documentation = "Global batches of one evaluation; 0 uses the whole validation split.",
           .minimum = 0},
          {.name = "log_every",
           .type = OptionType::integer,
           .default_value = 10,
           .documentation = "Steps between progress lines if the output is not a terminal.",
           .minimum = 1,
           .may_differ = true},
          {.name = "resume",
           .type = OptionType::word,
           .default_value = "",
           .documentation = "What the run continues from: \"auto\" starts the run or continues its newest whole "
                            "checkpoint, a folder "
                            "is a checkpoint or a run's output. Empty starts anew.",
           .may_differ = true},
          {.name = "accept_changed",
           .type = OptionType::words,
           .default_value = std::vector<std::string>{},
           .documentation =
               "Settings in which a resumed run may differ from its checkpoint: seed, batch, model, data."},
          {.name = "stop_after",
           .type = OptionType::word,
           .default_value = "",
           .documentation = "Time after which the run writes a checkpoint and ends with exit code 75, such as "
                            "\"3h50m\". Empty: none.",
           .may_differ = true},
          {.name = "stop_before_job_end",
           .type = OptionType::word,
           .default_value = "",
           .documentation = "How long before the end of its Slurm job the run stops likewise, such as \"10m\".",
           .may_differ = true},
          {.name = "watchdog",
           .type = OptionType::number,
           .default_value = 60.0,
           .documentation = "Seconds after which a rank that does not get on is named, with what it does, and a hook "
                            "of a plugin that does not end; 0 watches none.",
           .minimum = 0,
           .may_differ = true},
          {.name = "stop_grace",
           .type = OptionType::number,
           .default_value = 30.0,
           .documentation = "Seconds after which a run that was asked to stop fails, if none of its ranks gets on; 0 "
                            "waits without a limit.",
           .minimum = 0,
           .may_differ = true},
      }};
}

SectionDeclaration shrink_declaration() {
  return {.path = "run.shrink",
          .documentation =
              "How `strata launch --hosts --max-restarts` continues on the hosts that are left, with fewer ranks along "
              "one axis of the mesh. The global batch stays. "
              "`shrink = { axis = \"dp\", min = 2 }` is an example.",
          .schema = {{.name = "axis",
                      .type = OptionType::word,
                      .default_value = "",
                      .documentation = "Name of the axis. Its strategy's option `size` must be its number of ranks. "
                                       "Empty: the run needs all its ranks."},
                     {.name = "min",
                      .type = OptionType::integer,
                      .default_value = 1,
                      .documentation = "Smallest number of ranks along the axis.",
                      .minimum = 1}}};
}

}  // namespace strata::host
