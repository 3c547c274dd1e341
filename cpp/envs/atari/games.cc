// The tasks: every game that ale-py ships and Gymnasium registers, under Gymnasium's names.
#include "games.h"

#include "atari.h"
#include "torchrl_pool/env.h"

namespace torchrl_pool::atari {
namespace {

struct Game {
  const char* task_id;
  const char* name;
};
constexpr Game kGames[] = {
    {"ALE/Adventure-v5", "adventure"},
    {"ALE/AirRaid-v5", "air_raid"},
    {"ALE/Alien-v5", "alien"},
    {"ALE/Amidar-v5", "amidar"},
    {"ALE/Assault-v5", "assault"},
    {"ALE/Asterix-v5", "asterix"},
    {"ALE/Asteroids-v5", "asteroids"},
    {"ALE/Atlantis-v5", "atlantis"},
    {"ALE/Atlantis2-v5", "atlantis2"},
    {"ALE/Backgammon-v5", "backgammon"},
    {"ALE/BankHeist-v5", "bank_heist"},
    {"ALE/BasicMath-v5", "basic_math"},
    {"ALE/BattleZone-v5", "battle_zone"},
    {"ALE/BeamRider-v5", "beam_rider"},
    {"ALE/Berzerk-v5", "berzerk"},
    {"ALE/Blackjack-v5", "blackjack"},
    {"ALE/Bowling-v5", "bowling"},
    {"ALE/Boxing-v5", "boxing"},
    {"ALE/Breakout-v5", "breakout"},
    {"ALE/Carnival-v5", "carnival"},
    {"ALE/Casino-v5", "casino"},
    {"ALE/Centipede-v5", "centipede"},
    {"ALE/ChopperCommand-v5", "chopper_command"},
    {"ALE/CrazyClimber-v5", "crazy_climber"},
    {"ALE/Crossbow-v5", "crossbow"},
    {"ALE/Darkchambers-v5", "darkchambers"},
    {"ALE/Defender-v5", "defender"},
    {"ALE/DemonAttack-v5", "demon_attack"},
    {"ALE/DonkeyKong-v5", "donkey_kong"},
    {"ALE/DoubleDunk-v5", "double_dunk"},
    {"ALE/Earthworld-v5", "earthworld"},
    {"ALE/ElevatorAction-v5", "elevator_action"},
    {"ALE/Enduro-v5", "enduro"},
    {"ALE/Entombed-v5", "entombed"},
    {"ALE/Et-v5", "et"},
    {"ALE/FishingDerby-v5", "fishing_derby"},
    {"ALE/FlagCapture-v5", "flag_capture"},
    {"ALE/Freeway-v5", "freeway"},
    {"ALE/Frogger-v5", "frogger"},
    {"ALE/Frostbite-v5", "frostbite"},
    {"ALE/Galaxian-v5", "galaxian"},
    {"ALE/Gopher-v5", "gopher"},
    {"ALE/Gravitar-v5", "gravitar"},
    {"ALE/Hangman-v5", "hangman"},
    {"ALE/HauntedHouse-v5", "haunted_house"},
    {"ALE/Hero-v5", "hero"},
    {"ALE/HumanCannonball-v5", "human_cannonball"},
    {"ALE/IceHockey-v5", "ice_hockey"},
    {"ALE/Jamesbond-v5", "jamesbond"},
    {"ALE/JourneyEscape-v5", "journey_escape"},
    {"ALE/Kaboom-v5", "kaboom"},
    {"ALE/Kangaroo-v5", "kangaroo"},
    {"ALE/KeystoneKapers-v5", "keystone_kapers"},
    {"ALE/KingKong-v5", "king_kong"},
    {"ALE/Klax-v5", "klax"},
    {"ALE/Koolaid-v5", "koolaid"},
    {"ALE/Krull-v5", "krull"},
    {"ALE/KungFuMaster-v5", "kung_fu_master"},
    {"ALE/LaserGates-v5", "laser_gates"},
    {"ALE/LostLuggage-v5", "lost_luggage"},
    {"ALE/MarioBros-v5", "mario_bros"},
    {"ALE/MiniatureGolf-v5", "miniature_golf"},
    {"ALE/MontezumaRevenge-v5", "montezuma_revenge"},
    {"ALE/MrDo-v5", "mr_do"},
    {"ALE/MsPacman-v5", "ms_pacman"},
    {"ALE/NameThisGame-v5", "name_this_game"},
    {"ALE/Othello-v5", "othello"},
    {"ALE/Pacman-v5", "pacman"},
    {"ALE/Phoenix-v5", "phoenix"},
    {"ALE/Pitfall-v5", "pitfall"},
    {"ALE/Pitfall2-v5", "pitfall2"},
    {"ALE/Pong-v5", "pong"},
    {"ALE/Pooyan-v5", "pooyan"},
    {"ALE/PrivateEye-v5", "private_eye"},
    {"ALE/Qbert-v5", "qbert"},
    {"ALE/Riverraid-v5", "riverraid"},
    {"ALE/RoadRunner-v5", "road_runner"},
    {"ALE/Robotank-v5", "robotank"},
    {"ALE/Seaquest-v5", "seaquest"},
    {"ALE/SirLancelot-v5", "sir_lancelot"},
    {"ALE/Skiing-v5", "skiing"},
    {"ALE/Solaris-v5", "solaris"},
    {"ALE/SpaceInvaders-v5", "space_invaders"},
    {"ALE/SpaceWar-v5", "space_war"},
    {"ALE/StarGunner-v5", "star_gunner"},
    {"ALE/Superman-v5", "superman"},
    {"ALE/Surround-v5", "surround"},
    {"ALE/Tennis-v5", "tennis"},
    {"ALE/Tetris-v5", "tetris"},
    {"ALE/TicTacToe3D-v5", "tic_tac_toe_3d"},
    {"ALE/TimePilot-v5", "time_pilot"},
    {"ALE/Trondead-v5", "trondead"},
    {"ALE/Turmoil-v5", "turmoil"},
    {"ALE/Tutankham-v5", "tutankham"},
    {"ALE/UpNDown-v5", "up_n_down"},
    {"ALE/Venture-v5", "venture"},
    {"ALE/VideoCheckers-v5", "video_checkers"},
    {"ALE/VideoChess-v5", "video_chess"},
    {"ALE/VideoCube-v5", "video_cube"},
    {"ALE/VideoPinball-v5", "video_pinball"},
    {"ALE/WizardOfWor-v5", "wizard_of_wor"},
    {"ALE/WordZapper-v5", "word_zapper"},
    {"ALE/YarsRevenge-v5", "yars_revenge"},
    {"ALE/Zaxxon-v5", "zaxxon"},
};

bool RegisterAll() {
  for (const Game& game : kGames) {
    Register<Atari>({.id = game.task_id, .description = std::string("Atari 2600: ") + game.name});
  }
  return true;
}
const bool registered = RegisterAll();

}  // namespace

std::string GameOf(const std::string& task_id) {
  for (const Game& game : kGames) {
    if (task_id == game.task_id) return game.name;
  }
  throw InvalidArgument("no Atari game is called '" + task_id + "'");
}

}  // namespace torchrl_pool::atari
