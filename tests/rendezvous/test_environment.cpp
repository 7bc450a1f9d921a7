#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "rendezvous/process_environment.hpp"
#include "strata/error.hpp"

namespace strata::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

const std::string kEnvironmentSecret = "0123456789abcdef";

/// The variables that torchrun sets, changed by `more`. An empty value unsets a variable.
Variables launched(const Variables& more = {}) {
  Variables variables{{"RANK", "3"},
                      {"WORLD_SIZE", "4"},
                      {"LOCAL_RANK", "1"},
                      {"MASTER_ADDR", "node0"},
                      {"MASTER_PORT", "29500"},
                      {"STRATA_SECRET", kEnvironmentSecret}};
  for (const auto& [name, value] : more) {
    variables[name] = value;
    if (value.empty()) variables.erase(name);
  }
  return variables;
}

std::optional<ProcessEnvironment> read(const Variables& variables) {
  return read_process_environment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string refusal(const Variables& variables) {
  try {
    (void)read(variables);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

TEST(ProcessEnvironment, IsReadAsTorchrunSetsIt) {
  const auto found = read(launched());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 3);
  EXPECT_EQ(found->rank_count, 4);
  EXPECT_EQ(found->local_rank, 1);
  EXPECT_EQ(found->address, "node0");
  EXPECT_EQ(found->port, 29500);
  EXPECT_EQ(found->secret, kEnvironmentSecret);
  EXPECT_FALSE(read(launched({{"LOCAL_RANK", ""}}))->local_rank);
}

TEST(ProcessEnvironment, IsReadAsSlurmSetsIt) {
  const Variables slurm{{"SLURM_PROCID", "5"},
                        {"SLURM_NTASKS", "8"},
                        {"SLURM_LOCALID", "1"},
                        {"SLURM_JOB_NODELIST", "gpu[07-09],gpu12"},
                        {"SLURM_JOB_ID", "30001234"},
                        {"SLURM_STEP_ID", "0"},
                        {"STRATA_SECRET", kEnvironmentSecret}};
  const auto found = read(slurm);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 5);
  EXPECT_EQ(found->rank_count, 8);
  EXPECT_EQ(found->local_rank, 1);
  EXPECT_EQ(found->address, "gpu07");
  EXPECT_EQ(found->port, 21234);

  EXPECT_EQ(read(launched({{"MASTER_ADDR", "[::1]"}}))->address, "::1");

  Variables told = slurm;
  told.insert({{"MASTER_ADDR", "head"}, {"MASTER_PORT", "1234"}});
  EXPECT_EQ(read(told)->address, "head");
  EXPECT_EQ(read(told)->port, 1234);

  Variables batch_script = slurm;
  batch_script.erase("SLURM_STEP_ID");
  EXPECT_FALSE(read(batch_script)) << "the script itself is no rank";
}

/// A step that runs on some hosts of its job finds rank 0 on the first of its own.
TEST(ProcessEnvironment, FindsRankZeroOnTheStepsHosts) {
  const auto found = read({{"SLURM_PROCID", "1"},
                           {"SLURM_NTASKS", "2"},
                           {"SLURM_JOB_NODELIST", "gpu[07-09]"},
                           {"SLURM_STEP_NODELIST", "gpu09"},
                           {"SLURM_JOB_ID", "1"},
                           {"SLURM_STEP_ID", "3"},
                           {"STRATA_SECRET", kEnvironmentSecret}});
  EXPECT_EQ(found->address, "gpu09");
}

/// The variables that `srun -n 4` of Slurm 22.05 sets for task 1, of those that are read.
Variables task_of_srun() {
  return {{"SLURM_JOB_ID", "30001234"},
          {"SLURM_STEP_ID", "2"},
          {"SLURM_PROCID", "1"},
          {"SLURM_NTASKS", "4"},
          {"SLURM_LOCALID", "1"},
          {"SLURM_JOB_NODELIST", "gpu[07-09]"},
          {"SLURM_STEP_NODELIST", "gpu08"},
          {"STRATA_SECRET", kEnvironmentSecret}};
}

/// Two steps may run at once in one job, on the same host.
TEST(ProcessEnvironment, OfASlurmStepHasAPortOfItsOwn) {
  EXPECT_EQ(read(task_of_srun())->port, 21436);
  Variables first = task_of_srun();
  first["SLURM_STEP_ID"] = "0";
  EXPECT_EQ(read(first)->port, 21234);
}

/// `srun --mpi=pmi2` adds PMI's variables, but none for the rank on the machine.
TEST(ProcessEnvironment, IsSlurmsWhereSrunSetsVariablesOfPmi) {
  Variables with_pmi = task_of_srun();
  with_pmi.insert({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"PMI_JOBID", "30001234.2"}, {"PMI_FD", "13"}});
  const auto found = read(with_pmi);
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->rank_count, 4);
  EXPECT_EQ(found->local_rank, 1);
  EXPECT_EQ(found->address, "gpu08");
}

/// In a job of Slurm, Open MPI's mpirun starts daemons with srun on all hosts but its own, the first of the job. Ranks
/// on that host have no variables of the step.
TEST(ProcessEnvironment, OfOpenMpiFindsRankZeroOnTheHostOfMpirun) {
  Variables elsewhere = task_of_srun();
  elsewhere.insert({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  Variables on_the_first = elsewhere;
  for (const char* name : {"SLURM_STEP_ID", "SLURM_STEP_NODELIST"}) on_the_first.erase(name);
  for (const Variables& variables : {elsewhere, on_the_first}) {
    EXPECT_EQ(read(variables)->address, "gpu07");
    EXPECT_EQ(read(variables)->port, 21234);
    EXPECT_EQ(read(variables)->local_rank, 0);
  }
}

/// mpirun starts its daemons as tasks of a Slurm step, whose variables the ranks inherit.
TEST(ProcessEnvironment, IsReadAsLaunchersOfMpiSetIt) {
  const Variables slurm{{"SLURM_PROCID", "0"},       {"SLURM_NTASKS", "1"},
                        {"SLURM_STEP_ID", "0"},      {"SLURM_JOB_ID", "1"},
                        {"SLURM_JOB_NODELIST", "a"}, {"MASTER_ADDR", "b"},
                        {"MASTER_PORT", "1234"},     {"STRATA_SECRET", kEnvironmentSecret}};
  Variables open_mpi = slurm;
  open_mpi.insert({{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
  Variables pmi = slurm;
  pmi.insert({{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "1"}});
  for (const Variables& variables : {open_mpi, pmi}) {
    const auto found = read(variables);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->rank, 5);
    EXPECT_EQ(found->rank_count, 8);
    EXPECT_EQ(found->local_rank, 1);
    EXPECT_EQ(found->address, "b");
  }
}

TEST(ProcessEnvironment, IsEmptyWhereTheProcessIsAlone) {
  EXPECT_FALSE(read({}));
  EXPECT_FALSE(read({{"WORLD_SIZE", "1"}, {"RANK", "0"}})) << "needs neither address nor secret";
}

TEST(ProcessEnvironment, FindsAFreePortBesideTheAgentOfTorchrun) {
  EXPECT_EQ(read(launched({{"TORCHELASTIC_USE_AGENT_STORE", "True"}}))->port, 29501);
  EXPECT_EQ(read(launched({{"TORCHELASTIC_USE_AGENT_STORE", "False"}}))->port, 29500);
  EXPECT_EQ(read(launched({{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"STRATA_PORT", "4000"}}))->port, 4000);
}

TEST(ProcessEnvironment, NamesTheVariableThatIsWrong) {
  EXPECT_THAT(refusal(launched({{"WORLD_SIZE", "four"}})),
              AllOf(HasSubstr("WORLD_SIZE: found 'four'"), HasSubstr("an integer of at least 1")));
  EXPECT_THAT(refusal(launched({{"WORLD_SIZE", "0"}})), HasSubstr("WORLD_SIZE: found '0'"));
  EXPECT_THAT(refusal(launched({{"WORLD_SIZE", ""}})), HasSubstr("WORLD_SIZE: found nothing"));
  EXPECT_THAT(refusal(launched({{"RANK", ""}})), HasSubstr("RANK: found nothing"));
  EXPECT_THAT(refusal(launched({{"RANK", "4"}})),
              HasSubstr("RANK: found 4; accepted: less than WORLD_SIZE, which is 4"));
  EXPECT_THAT(refusal(launched({{"RANK", "-1"}})), HasSubstr("RANK: found '-1'"));
  EXPECT_THAT(refusal(launched({{"LOCAL_RANK", "9"}})), HasSubstr("LOCAL_RANK: found '9'"));
  EXPECT_THAT(refusal(launched({{"MASTER_ADDR", ""}})), HasSubstr("MASTER_ADDR: found nothing"));
  EXPECT_THAT(refusal(launched({{"MASTER_PORT", "70000"}})), HasSubstr("MASTER_PORT: found '70000'"));
  EXPECT_THAT(refusal(launched({{"MASTER_PORT", "29500x"}})), HasSubstr("MASTER_PORT: found '29500x'"));
}

TEST(ProcessEnvironment, NeedsASecretThatIsNotShort) {
  EXPECT_THAT(refusal(launched({{"STRATA_SECRET", ""}})),
              AllOf(HasSubstr("STRATA_SECRET: found nothing"), HasSubstr("openssl rand")));
  const std::string message = refusal(launched({{"STRATA_SECRET", "too short"}}));
  EXPECT_THAT(message, HasSubstr("a text of 9 characters"));
  EXPECT_THAT(message, ::testing::Not(HasSubstr("too short"))) << "a secret is not printed";
}

TEST(SlurmHosts, BeginWithTheFirst) {
  EXPECT_EQ(first_slurm_host("login"), "login");
  EXPECT_EQ(first_slurm_host("a,b"), "a");
  EXPECT_EQ(first_slurm_host("gpu[07-09,12],login"), "gpu07");
  EXPECT_EQ(first_slurm_host("gpu[3,5]"), "gpu3");
  EXPECT_EQ(first_slurm_host("rack[2-3]node[010-020]-ib,x"), "rack2node010-ib");
  for (const char* bad : {"", ",", "gpu[", "gpu[]"})
    EXPECT_THROW((void)first_slurm_host(bad), ConfigurationError) << bad;
}

}  // namespace
}  // namespace strata::rendezvous
